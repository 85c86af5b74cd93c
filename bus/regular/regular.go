// Package regular reads and writes files in directories that others may have filled. In a file's place may
// stand a pipe that nobody writes to, a device, a link to itself, or a terabyte of zeros that no disk holds:
// each is an error that names it, at once, and nothing is read or made larger than was asked for.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNot marks what is there and is no regular file, nor a link to one.
var ErrNot = errors.New("not a file")

// ErrLong marks a file that is longer than it may be.
var ErrLong = errors.New("too long: if it is something else, move it away")

// Check returns ErrNot if something other than a regular file is at path. A file that is not there is for its
// reader, or its maker, to judge.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return judge(path, info)
}

func judge(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is a %s, %w: move it away", path, Kind(info.Mode()), ErrNot)
}

// Kind says what a file is by its mode.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// Open opens a file of at most so many bytes to be read.
func Open(path string, most int64) (*os.File, error) {
	info, err := os.Stat(path)
	if wrong := (*fs.PathError)(nil); errors.As(err, &wrong) {
		wrong.Op = "open" // as who asked for it says
	}
	if err != nil {
		return nil, err
	}
	if err := judge(path, info); err != nil {
		return nil, err // to open a device may already do something
	}
	// what has taken its place since hangs nobody
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = judge(path, info)
	}
	if err == nil && info.Size() > most {
		err = tooLong(path, info, most)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func tooLong(path string, info fs.FileInfo, most int64) error {
	return fmt.Errorf("%s has %d bytes, at most %d are read: it is %w", path, info.Size(), most, ErrLong)
}

// Read reads a file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return all(f, most)
}

// ReadGiven reads what somebody named on a command line: also a pipe, as of a program that hands over secrets
// without a file, which is waited for.
func ReadGiven(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeNamedPipe == 0 {
		err = judge(path, info)
	}
	if err == nil && info.Size() > most {
		err = tooLong(path, info, most)
	}
	if err != nil {
		return nil, err
	}
	return all(f, most)
}

func all(f *os.File, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes: it is %w", f.Name(), most, ErrLong)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Create makes a file for its owner alone, to be written at its end, in place of whatever is at path: a link
// is not followed, and nobody has it open already.
func Create(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// Update opens a file to be read, and written in place; it makes one for its owner alone where there is none.
func Update(path string) (*os.File, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
}

// Write makes a file of what it is to hold, as Create does.
func Write(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Replace writes a file beside another, and puts it in its place once it is on the disk: whoever looks, also
// after a crash, sees the one or the other.
func Replace(path string, data []byte) error {
	f, err := Create(path + ".new")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
