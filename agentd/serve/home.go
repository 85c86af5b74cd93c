package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ErrHomeTaken says that another process has the node's directory.
var ErrHomeTaken = errors.New("another agentd has this directory")

// Home is a node's own directory. Its lock proves that earlier lives of the node are dead, and its spools
// hold what they are yet to be paid. A life is one run of the process: each has a name, which the directory
// remembers.
type Home struct {
	dir  string
	lock *os.File
	life string
	past []string
}

// maxLives is how many names are remembered: only one that is still in the registry matters.
const maxLives = 16

// OpenHome makes or takes the directory of a node below data, and keeps other processes out of it until
// Close. ErrHomeTaken if one is there.
func OpenHome(data, node string) (*Home, error) {
	dir := filepath.Join(data, "agentd", "node-"+url.PathEscape(node))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "LOCK")
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: stop that one, or give this one another node name or data directory",
				ErrHomeTaken)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	h := &Home{dir: dir, lock: lock}
	h.live()
	return h, nil
}

// live makes the name of this life and remembers it. If the disk is full it is not remembered: then a later
// life cannot prove that this one has ended, and waits until its lease expires.
func (h *Home) live() {
	path := filepath.Join(h.dir, "LIVES")
	if text, err := os.ReadFile(path); err == nil {
		h.past = strings.Fields(string(text))
	}
	h.past = h.past[max(0, len(h.past)-maxLives):]
	h.life = rand.Text()
	text := strings.Join(append(slices.Clone(h.past), h.life), "\n") + "\n"
	if os.WriteFile(path+".new", []byte(text), 0o600) == nil {
		_ = os.Rename(path+".new", path)
	}
}

// Life names this opening. The zero Home has none.
func (h *Home) Life() string {
	if h == nil {
		return ""
	}
	return h.life
}

// hung is the file that names policies in which a life hung; "": none is kept.
func (h *Home) hung() string {
	if h == nil {
		return ""
	}
	return filepath.Join(h.dir, "HUNG")
}

// Ended reports whether life names an earlier opening of this directory: its process has died, or has closed
// it.
func (h *Home) Ended(life string) bool { return h != nil && slices.Contains(h.past, life) }

// Close lets another have the directory.
func (h *Home) Close() error { return h.lock.Close() }
