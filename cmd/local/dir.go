package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"souk/bus/regular"
)

// Dir is a market's data directory:
//
//	DIR/lock            held by the market that runs here; its process id, and why it is not up yet
//	DIR/market.json     where that market can be reached (State)
//	DIR/auth/           keys, creds and certificates
//	DIR/etcd/           leases, claims, elections
//	DIR/journal/NAME/   one journal for the treasury and for each hub
//	DIR/NAME.learned    what a hub has learned of its agents
//	DIR/NAME.witnessed  what a treasury or hub has cosigned
//	DIR/auth/           who may come to NATS (natsauth.Store)
//	DIR/keys/CLIENT     a client's key for HTTP, for its owner's eyes alone
type Dir struct {
	Path  string
	lock  *os.File
	waits string // why it is not up yet, as it stands in the lock
}

// ErrInUse marks a data directory on which a market runs already.
var ErrInUse = errors.New("the data directory is in use")

// ErrNoMarket marks a data directory on which no market runs.
var ErrNoMarket = errors.New("no market runs there")

var errStarting = errors.New("the market there is not up yet")

var errNoDir = errors.New("the data directory has no name: --data is empty")

// State tells other commands where the market of a data directory is.
type State struct {
	PID  int    `json:"pid"`
	NATS string `json:"nats"`           // nats://127.0.0.1:port
	Etcd string `json:"etcd"`           // https://127.0.0.1:port
	HTTP string `json:"http,omitempty"` // http://127.0.0.1:port
	// http://127.0.0.1:port of /metrics and what is beside it
	Health  string    `json:"health,omitempty"`
	Started time.Time `json:"started"`
	Domains []string  `json:"domains"`
	Agents  []string  `json:"agents"`

	Processes []Process `json:"processes,omitempty"` // of which it is made, where it is not one alone
}

// Process is a process of a market.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// a simulated engine: a stand-in for what costs the market nothing
	Engine bool `json:"engine,omitempty"`
}

// OpenDir makes the directory if there is none, and locks it until Close. A directory on which another
// market runs is ErrInUse; one that has journals but lost the etcd data that they belong to is refused.
func OpenDir(path string) (*Dir, error) {
	if path == "" {
		return nil, errNoDir
	}
	if err := os.MkdirAll(filepath.Join(path, "journal"), 0o700); err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be made: %w; give another by --data", path, err)
	}
	name := filepath.Join(path, "lock")
	if err := regular.Check(name); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be used: %w; give another by --data", path, err)
	}
	err = syscall.EWOULDBLOCK
	for try := 0; try < 5 && err == syscall.EWOULDBLOCK; try++ { // starting has it for a moment
		if try > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		holder, _ := lockedBy(path)
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w by the market of %s: stop that one, or give another --data", path,
				ErrInUse, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	d := &Dir{Path: path, lock: lock}
	if err := d.begin(); err != nil {
		lock.Close()
		return nil, err
	}
	return d, nil
}

// lockedBy returns who wrote its name into the lock last, and why that one is not up yet, if it says.
func lockedBy(dir string) (who, why string) {
	text, err := regular.Read(filepath.Join(dir, "lock"), maxLock)
	pid, why, _ := strings.Cut(string(text), "\n")
	if err != nil || strings.TrimSpace(pid) == "" {
		return "another process", ""
	}
	return "process " + strings.TrimSpace(pid), strings.TrimSpace(why)
}

// maxLock bounds the lock file: a process id, and a reason; maxState the one that says where a market is.
const (
	maxLock  = 4 << 10
	maxState = 1 << 20
)

// Waits says why the market is not up yet, for other commands; "": nothing in particular. That it cannot be
// written is no harm.
func (d *Dir) Waits(why string) {
	why = why[:min(len(why), maxLock-64)]
	if why != d.waits && d.writeLock(why) == nil {
		d.waits = why
	}
}

func (d *Dir) writeLock(why string) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	if why != "" {
		text += why + "\n"
	}
	if _, err := d.lock.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return d.lock.Truncate(int64(len(text)))
}

// inUse reports whether a process has a data directory: its market runs, or is not up yet.
func inUse(dir string) bool {
	lock, err := regular.Open(filepath.Join(dir, "lock"), maxLock)
	if err != nil {
		return false
	}
	defer lock.Close()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == syscall.EWOULDBLOCK
}

func (d *Dir) begin() error {
	journals, err := filepath.Glob(filepath.Join(d.Path, "journal", "*"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(d.Etcd(), "member")); errors.Is(err, os.ErrNotExist) &&
		len(journals) > 0 {
		return fmt.Errorf("%s holds %d journals, but %s is gone: epochs would begin anew, below those that "+
			"the journals have seen. Restore %s from the same backup as the journals, or start on a new "+
			"directory with --data (the old journals stay readable: ledger check %s)",
			filepath.Join(d.Path, "journal"), len(journals), d.Etcd(), d.Etcd(), d.Path)
	}
	// Whatever stood there is of a market that has ended.
	if err := os.Remove(d.stateFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return d.writeLock("")
}

// Etcd returns the registry's data directory.
func (d *Dir) Etcd() string { return filepath.Join(d.Path, "etcd") }

// Journal is the directory of one journal.
func (d *Dir) Journal(name string) string { return filepath.Join(d.Path, "journal", name) }

// Learned is the file of what a hub has learned of its agents.
func (d *Dir) Learned(name string) string { return filepath.Join(d.Path, name+".learned") }

// Witnessed is the file of what the keeper of a journal has cosigned of others.
func (d *Dir) Witnessed(name string) string { return filepath.Join(d.Path, name+".witnessed") }

// Key is the file of a client's key for HTTP.
func (d *Dir) Key(client string) string { return filepath.Join(d.Path, "keys", client) }

func (d *Dir) stateFile() string { return stateFile(d.Path) }

func stateFile(dir string) string { return filepath.Join(dir, "market.json") }

// Publish writes the state file, whole or not at all.
func (d *Dir) Publish(s State) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return regular.Replace(d.stateFile(), append(b, '\n'))
}

// Close takes the state file away and ends the lock.
func (d *Dir) Close() error {
	err := os.Remove(d.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.lock.Close())
}

// unreadable adds to a permission error whom the data directory is open to.
func unreadable(dir string, err error) error {
	if !errors.Is(err, os.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: %s is open to its market's user alone: be the user who started it, or come with "+
		"creds of your own (--nats and --creds)", err, dir)
}

// ReadState says where the market of a data directory is: ErrNoMarket if none runs there now.
func ReadState(dir string) (State, error) {
	if dir == "" {
		return State{}, errNoDir
	}
	b, err := regular.Read(stateFile(dir), maxState)
	switch {
	case errors.Is(err, os.ErrNotExist) && inUse(dir):
		who, why := lockedBy(dir)
		if why != "" {
			return State{}, fmt.Errorf("%s: %w: %s brings it up, and says: %s", dir, errStarting, who, why)
		}
		return State{}, fmt.Errorf("%s: %w: %s brings it up: try again shortly, or see what that one says", dir,
			errStarting, who)
	case errors.Is(err, os.ErrNotExist):
		return State{}, fmt.Errorf("%s: %w: start one with `souk up --data %s`", dir, ErrNoMarket, dir)
	}
	if err != nil {
		return State{}, unreadable(dir, err)
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, fmt.Errorf("%s: it is damaged: %w: stop the market that runs there, if one does, "+
			"and start it again", stateFile(dir), err)
	}
	if !inUse(dir) { // a market that was killed leaves the file behind, and a copy of the directory has it
		return State{}, fmt.Errorf("%s: %w: process %d, which had it, has ended, or has the directory that this is "+
			"a copy of: go there, or start this one with `souk up --data %s`", dir, ErrNoMarket, s.PID, dir)
	}
	return s, nil
}
