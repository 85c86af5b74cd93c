// Package inspect reads journals where they lie, beside their writers, and reports what is wrong in them, or
// explains a price in them. It needs no daemon, network or key, and changes none of them.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// Source is one journal to read.
type Source struct {
	Dir  string
	Name string // of its first record; the directory's until that is read
	Role string
	// of the treasury's journal: what a credit is, in the whole market
	Currency string
	// Progress is called with the bytes of each frame that was read; nil: nobody asks.
	Progress func(bytes int)

	reader *journal.Reader
	err    error     // the first frame could not be read, and there is no reader
	last   uint64    // frame read last
	done   bool      // damage was found: nothing behind it is read
	sum    hash.Hash // of the frames' bytes; nil: nobody asks
}

// Open finds and opens the journals at paths, or only that of a name. A path is a data directory (with
// journal/NAME in it), the directory of several journals, or that of one. Two of one name are refused, since
// what is in a copy would count twice, and so is one whose first frame cannot be read: nobody knows which it
// is.
func Open(paths []string, name string) ([]*Source, error) {
	all, _, err := open(paths, name, false)
	dirs := map[string]string{}
	for _, s := range all {
		if other := dirs[s.Name]; other != "" {
			return nil, fmt.Errorf("%s and %s are both journal %s: one of them is a copy: name the one that is "+
				"meant, or take the other away", other, s.Dir, s.Name)
		}
		if dirs[s.Name] = s.Dir; s.err != nil {
			return nil, s.err
		}
	}
	return all, err
}

// open also reports whether these are all journals of some directory, and not some that were chosen. witness
// says that their snapshots are compared with them.
func open(paths []string, name string, witness bool) (all []*Source, whole bool, err error) {
	seen := map[string]bool{}
	var names []string
	for _, p := range paths {
		dirs, err := journal.Find(p)
		if err != nil {
			return nil, false, err
		}
		single := len(dirs) == 1 && (dirs[0] == p || dirs[0] == filepath.Dir(p))
		whole = whole || !single && name == ""
		for _, dir := range dirs {
			if seen[dir] {
				continue
			}
			seen[dir] = true
			s, err := openSource(dir, witness)
			if err != nil {
				return nil, false, err
			}
			names = append(names, s.Name)
			if name == "" || s.Name == name {
				all = append(all, s)
			}
		}
	}
	if len(all) == 0 {
		return nil, false, fmt.Errorf("no journal %s at %s: there are %s", name, strings.Join(paths, ", "),
			strings.Join(names, ", "))
	}
	return all, whole, nil
}

func openSource(dir string, witness bool) (*Source, error) {
	s := &Source{Dir: dir, Name: filepath.Base(dir)}
	var first journal.Entry
	r, err := journal.NewReader(dir)
	if err == nil {
		first, err = r.Next()
	}
	switch {
	case errors.Is(err, journal.ErrDamaged):
		s.err = err
		return s, nil
	case err != nil && err != io.EOF:
		return nil, err
	}
	if f, err := first.Frame(); err == nil && len(f.Records) > 0 && f.Records[0].Open != nil {
		o := f.Records[0].Open
		s.Name, s.Role, s.Currency = o.Journal, o.Role, o.Currency
	}
	if s.reader, err = journal.NewReader(dir); err == nil && witness {
		s.reader.Witness()
	}
	return s, err
}

// Size returns the bytes of the journal's segments, with what is allocated in the last one.
func (s *Source) Size() (bytes int64) {
	files, _ := filepath.Glob(filepath.Join(s.Dir, "wal", "*.wal")) // a pattern that is one
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// each calls f with the entries that a reader has, up to a frame, or, for 0, to the journal's present end.
func (s *Source) each(ctx context.Context, r *journal.Reader, until uint64,
	f func(journal.Entry) error) error {
	for until == 0 || r.Frames+1 < until {
		e, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if s.Progress != nil {
			s.Progress(len(e.Data))
		}
		if err = f(e); errors.Is(err, ledger.ErrEncoding) {
			_, err = e.Frame()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Frames calls f with every frame that was not given yet, decoded.
func (s *Source) Frames(ctx context.Context, f func(*ledger.Frame) error) error {
	return s.each(ctx, s.reader, 0, func(e journal.Entry) error {
		frame, err := e.Frame()
		if err == nil {
			err = f(&frame)
		}
		return err
	})
}

// ErrStop ends a walk through a journal early, without an error.
var ErrStop = errors.New("stop")

// Records calls f with every record and its frame, until f returns an error or [ErrStop].
func (s *Source) Records(ctx context.Context, f func(*ledger.Frame, *ledger.Record) error) error {
	err := s.Frames(ctx, func(frame *ledger.Frame) error {
		for i := range frame.Records {
			if err := f(frame, &frame.Records[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == ErrStop {
		return nil
	}
	return err
}

// Add adds to a sum, unless that would leave 64 bits.
func Add(sum *market.Credits, amount market.Credits) error {
	s, ok := sum.Add(amount)
	if !ok {
		return fmt.Errorf("a sum beyond 64 bits: %s and %s more", *sum, amount)
	}
	*sum = s
	return nil
}

// Facts calls f with every record and what it speaks of, up to the first frame of a time, in Unix
// nanoseconds, or until f returns an error or [ErrStop].
func (s *Source) Facts(ctx context.Context, to int64, f func(*ledger.Fact) error) error {
	r, err := journal.NewReader(s.Dir)
	if err == nil {
		reading := s.reading(ctx, 1)
		err = s.each(ctx, r, 0, func(e journal.Entry) error { return reading.Frame(e.Data, before(to, f)) })
	}
	return s.walked(err)
}

// before ends a walk with the first fact of a time.
func before(to int64, f func(*ledger.Fact) error) func(*ledger.Fact) error {
	return func(fact *ledger.Fact) error {
		if fact.Time >= to {
			return ErrStop
		}
		return f(fact)
	}
}

// walked turns the end of a walk through facts into what its caller is told.
func (s *Source) walked(err error) error {
	switch {
	case err == ErrStop:
		return nil
	case errors.As(err, new(*ledger.Violation)):
		return fmt.Errorf("%s: %w; see: ledger check %s", s.Name, err, quoted(s.Dir))
	}
	return err
}

// reading reads from a frame on, with which a segment begins, and of segments before that those that have
// holds which end there.
func (s *Source) reading(ctx context.Context, first uint64) *ledger.Reading {
	reading := ledger.NewReading()
	if reading.Role = s.Role; first > 1 {
		known := map[uint64]bool{} // segments that were read for their holds
		reading.Before = func(round uint64) (*ledger.Reading, error) {
			earlier := ledger.NewReading()
			begin, next, err := journal.Around(s.Dir, round)
			if err == nil && begin < first && !known[begin] {
				known[begin] = true
				var r *journal.Reader
				if r, err = journal.ReaderAt(s.Dir, begin); err == nil {
					err = s.each(ctx, r, next, func(e journal.Entry) error { return earlier.Holds(e.Data) })
				}
			}
			return earlier, err
		}
	}
	return reading
}
