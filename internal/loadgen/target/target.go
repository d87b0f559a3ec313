// Package target is the gateway that is measured: what it says of itself, what
// it uses, and, if it is started for the occasion, its process. It sends no
// load.
package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Admin is the admin interface of a gateway. Its methods may be called by any goroutine.
type Admin struct {
	base   string
	token  string
	client *http.Client
}

// ErrAdmin reports an admin interface that does not answer as one.
var ErrAdmin = errors.New("admin interface")

// NewAdmin names an admin interface, by an address such as http://127.0.0.1:8081.
func NewAdmin(address, token string) (*Admin, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: %q is no address", ErrAdmin, address)
	}
	return &Admin{base: strings.TrimRight(u.String(), "/"), token: token, client: &http.Client{Timeout: time.Minute}}, nil
}

// Info is what a gateway says of itself.
type Info struct {
	Version     string   `json:"version"`
	Realm       string   `json:"realm"`
	PublicKey   string   `json:"public_key"`
	Suites      []string `json:"suites"`
	HardwareAES bool     `json:"hardware_aes"`
}

// Info asks the gateway what it is.
func (a *Admin) Info(ctx context.Context) (Info, error) {
	var i Info
	body, err := a.get(ctx, "/v1/info")
	if err != nil {
		return i, err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(&i); err != nil {
		return i, fmt.Errorf("%w: /v1/info: %w", ErrAdmin, err)
	}
	return i, nil
}

// StatusError is an answer other than 200.
type StatusError struct {
	Path   string
	Status int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("admin interface: %s: %s", e.Path, http.StatusText(e.Status))
}

func (a *Admin) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAdmin, err)
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAdmin, err)
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, &StatusError{path, answer.StatusCode}
	}
	return answer.Body, nil
}

// Profile writes a CPU profile of the next so long, and a heap profile at its
// end, into files that begin with prefix. The gateway needs admin.pprof.
func (a *Admin) Profile(ctx context.Context, d time.Duration, prefix string) error {
	seconds := max(int(d.Seconds()+0.5), 1)
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	long := *a
	long.client = &http.Client{}
	if err := long.save(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds), prefix+".cpu.pprof"); err != nil {
		return err
	}
	return long.save(ctx, "/debug/pprof/heap", prefix+".heap.pprof")
}

func (a *Admin) save(ctx context.Context, path, name string) error {
	body, err := a.get(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Close())
}
