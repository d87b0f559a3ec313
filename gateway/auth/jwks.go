package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	maxSetBytes  = 256 << 10
	fetchTimeout = 4 * time.Second
	maxRedirects = 3
	// refetchAfter is the shortest time between two fetches because of a key that
	// is not known, so that made-up names of keys cannot keep the server busy.
	refetchAfter = 10 * time.Second
	retryAfter   = 5 * time.Second // after a failure
)

// ErrUnavailable is why a token cannot be judged now: nothing is wrong with it
// as far as is known. The client may try again later.
var ErrUnavailable = errors.New("the keys of tokens are not available")

// RemoteKeys is the key set of a URL. The last set that could be fetched holds
// for as long as no newer one can. Its methods are safe for concurrent use.
type RemoteKeys struct {
	url     string
	refresh time.Duration
	client  *http.Client

	keys atomic.Pointer[[]Key] // nil: none yet

	mu      sync.Mutex // held during a fetch
	tried   time.Time  // when the last one began
	ended   time.Time  // and ended
	fetched error      // with what
}

// NewRemoteKeys makes the set of a URL, which must be CheckURL's. Nothing is
// fetched before Run.
func NewRemoteKeys(address string, refresh time.Duration) *RemoteKeys {
	r := &RemoteKeys{url: address, refresh: refresh}
	r.client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirections")
		}
		return CheckURL(next.URL.String())
	}}
	return r
}

// CheckURL allows https, and http on this machine, where nobody can exchange the keys.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return errors.New("is no URL")
	case u.User != nil:
		return errors.New("holds a user name")
	case u.Scheme == "https":
		return nil
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && (strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return errors.New("must begin with https://, or with http:// on this machine")
}

// Run keeps the set fresh until ctx ends. Trouble is logged once, until it changes.
func (r *RemoteKeys) Run(ctx context.Context, log *zap.Logger) {
	for trouble := ""; ; {
		wait, before := r.refresh, trouble
		err := r.fetchAgain(ctx, 0)
		if trouble = ""; err != nil {
			wait, trouble = min(retryAfter, r.refresh), err.Error()
		}
		switch {
		case trouble == before || ctx.Err() != nil:
		case err == nil:
			log.Info("the tokens' keys can be fetched again", zap.String("jwks", r.url))
		default:
			log.Warn("the tokens' keys could not be fetched, those from before stay in force",
				zap.String("jwks", r.url), zap.Error(err), zap.Bool("any", r.keys.Load() != nil))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Seek fetches the set because a key in it is not known. It returns at once if
// that was done a moment ago: ErrUnavailable then says that the key may still
// come. It waits for a fetch that is under way.
func (r *RemoteKeys) Seek(ctx context.Context) error {
	return r.fetchAgain(ctx, refetchAfter)
}

// fetchAgain fetches unless the last fetch began less than pause ago.
func (r *RemoteKeys) fetchAgain(ctx context.Context, pause time.Duration) error {
	asked := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.After(asked) {
		return r.fetched // somebody did while we waited
	}
	if !r.tried.IsZero() && time.Since(r.tried) < pause {
		return ErrUnavailable
	}
	r.tried = time.Now()
	keys, err := r.fetch(ctx)
	r.ended = time.Now()
	if r.fetched = err; err == nil {
		r.keys.Store(&keys)
		return nil
	}
	r.fetched = fmt.Errorf("%w: %w", ErrUnavailable, err)
	return r.fetched
}

func (r *RemoteKeys) fetch(ctx context.Context) ([]Key, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxSetBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxSetBytes:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxSetBytes)
	}
	return parseSet(body, false)
}

// Ready returns nil once there is a set.
func (r *RemoteKeys) Ready() error {
	if r.keys.Load() != nil {
		return nil
	}
	return fmt.Errorf("auth.jwks %s: no keys of tokens yet", r.url)
}

// known are the keys of the last set.
func (r *RemoteKeys) known() []Key {
	if r == nil {
		return nil
	}
	if keys := r.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}
