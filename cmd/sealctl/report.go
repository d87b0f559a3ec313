package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/loadgen/report"
)

// report shows what load tests have found, from their JSON.
func (a *app) report(_ context.Context, args []string) error {
	var format string
	f := newFlags("report", "FILE...", `Shows results of "sealctl bench … -o json": as tables, or as a page with charts that needs no network.
Of two files the second is shown beside the first, which is taken for the earlier one. More files are
shown as one report.`)
	f.StringVar(&format, "o", "text", "`FORMAT` of the output: text, json or html")
	if help, err := a.parse(f, args, 1, 100); help || err != nil {
		return err
	}
	if !slices.Contains([]string{"text", "json", "html"}, format) {
		return advice.Misuse(fmt.Sprintf("-o: there is no format %q", format), "one of text, json, html")
	}
	var docs []*report.Document
	for _, name := range f.Args() {
		doc, err := readReport(name)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	return outputError(a.writeReport(format, docs))
}

func readReport(name string) (*report.Document, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, advice.Failed(err, "")
	}
	defer file.Close()
	doc, err := report.Read(file)
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("%s: %w", name, err), "make one with \"sealctl bench echo --start -o json > FILE\"")
	}
	return doc, nil
}

// writeReport writes one document, or two beside each other.
func (a *app) writeReport(format string, docs []*report.Document) error {
	shown := docs[len(docs)-1]
	var compared *report.Comparison
	if len(docs) == 2 {
		compared = report.CompareDocuments(docs[0], docs[1])
	}
	if len(docs) > 2 {
		shown = report.Join(docs)
	}
	switch {
	case format == "html":
		return shown.WriteHTML(a.stdout, compared)
	case format == "json" && compared != nil:
		return compared.WriteJSON(a.stdout)
	case format == "json":
		return shown.WriteJSON(a.stdout)
	case compared != nil:
		return compared.WriteText(a.stdout)
	}
	return shown.WriteText(a.stdout)
}
