package deployment

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	anyTitle = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fence    = regexp.MustCompile("(?ms)^```.*?^```$")
	unspoken = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// Links of pages lead to files that exist, and to headings in them.
func TestLinks(t *testing.T) {
	checked := 0
	for path, text := range pages(t) {
		if filepath.Ext(path) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], ":") {
				continue // another site
			}
			checked++
			to, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: a link leads to %s, which does not exist", path, m[1])
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: a link leads to %s, and there is no such heading", path, m[1])
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d links found: does this test still look where they are?", checked)
	}
}

// anchors are the names that GitHub gives to a page's headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range anyTitle.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := unspoken.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
