package serve

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"souk/bus/life"
)

// ErrHomeTaken says that another process has the node's directory.
var ErrHomeTaken = errors.New("another agentd has this directory")

// Home is a node's own directory. Its lock proves that earlier lives of the node have ended, and its spools
// hold completions that are not yet acknowledged. A life is one run of the process: each has a name and a
// boot time, which the directory remembers.
type Home struct {
	dir  string
	had  *life.Dir
	boot int64
}

// OpenHome makes or takes the directory of a node below data, and keeps other processes out of it until
// Close. ErrHomeTaken if one is there.
func OpenHome(data, node string) (*Home, error) {
	dir := filepath.Join(data, "agentd", "node-"+url.PathEscape(node))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	had, err := life.Take(dir)
	if errors.Is(err, life.ErrTaken) {
		err = fmt.Errorf("%w: %w: stop that one, or give this one another node name or data directory",
			ErrHomeTaken, err)
	}
	if err != nil {
		return nil, fmt.Errorf("node's directory %s: %w", dir, err)
	}
	h := &Home{dir, had, time.Now().UnixMilli()}
	had.Begin(strconv.FormatInt(h.boot, 10), true)
	return h, nil
}

// Life names this opening. The zero Home has none.
func (h *Home) Life() string {
	if h == nil {
		return ""
	}
	return h.had.Life()
}

// Ended reports whether life names an earlier opening of this very directory whose process is proven to have
// ended; if not, why nothing proves that.
func (h *Home) Ended(life string) (ended bool, why string) {
	if h == nil {
		return false, "a node without a directory cannot tell"
	}
	return h.had.Ended(life)
}

// Boots lists the boots of the lives that this very directory has had, as far as it knows, this one's last.
// What others served, in a directory that this one was copied from or that was lost, its spools do not say.
func (h *Home) Boots() (all []int64) {
	if h == nil {
		return nil
	}
	for _, word := range h.had.Words() {
		if boot, err := strconv.ParseInt(word, 10, 64); err == nil && boot != h.boot {
			all = append(all, boot)
		}
	}
	return append(all, h.boot)
}

// Held returns an error once the directory was moved away, or a copy was put in its place: what is written
// there is read by nobody who starts here.
func (h *Home) Held() error {
	if h == nil {
		return nil
	}
	if err := h.had.Held(); err != nil {
		return fmt.Errorf("node's directory %s: %w: the node ends; start it where its directory is", h.dir, err)
	}
	return nil
}

// Close lets another have the directory.
func (h *Home) Close() error { return h.had.Close() }
