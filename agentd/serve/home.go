package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/life"
)

// ErrHomeTaken says that another process has the node's directory.
var ErrHomeTaken = errors.New("another agentd has this directory")

// Home is a node's own directory. Its lock proves that earlier lives of the node have ended, and its spools
// hold what they are yet to be paid. A life is one run of the process: each has a name, which the directory
// remembers.
type Home struct {
	dir string
	had *life.Dir
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
	spools, _ := fs.Glob(os.DirFS(dir), "*.spool")
	had.Begin("0", len(spools) == 0 || had.Last() != "-") // spools without their LIVES are a copy
	return &Home{dir, had}, nil
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

// Moved reports whether the directory may be an older copy, so that other lives of the node may have served
// what its spools do not say.
func (h *Home) Moved() bool { return h != nil && h.had.Moved() }

// outlive waits, once all agents are registered and no other life has them, until no hold is open that one
// may have served. Then the directory is the node's.
func (h *Home) outlive(ctx context.Context) (over bool) {
	if !h.Moved() || !follow.Pause(ctx, bus.LedFor) {
		return false
	}
	h.had.Settle(true)
	return true
}

// hung is the file that names policies in which a life hung; "": none is kept.
func (h *Home) hung() string {
	if h == nil {
		return ""
	}
	return filepath.Join(h.dir, "HUNG")
}

// Close lets another have the directory.
func (h *Home) Close() error { return h.had.Close() }
