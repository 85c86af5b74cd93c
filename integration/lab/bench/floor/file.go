package floor

import (
	"errors"
	"os"
)

// fileBytes is the size to which a file is preallocated, as a journal's segment is, so that a sync need not
// write its length.
const fileBytes = 64 << 20

// File is a journal that nobody will read: frames one after another, and from the beginning again where its
// end is reached.
type File struct {
	file *os.File
	at   int64
	buf  []byte
}

// NewFile makes one in dir.
func NewFile(dir string) (*File, error) {
	f, err := os.CreateTemp(dir, "floor-")
	if err != nil {
		return nil, err
	}
	if err := reserve(f, fileBytes); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{file: f}, nil
}

// Append writes frames in one piece and syncs once.
func (f *File) Append(frames [][]byte) error {
	f.buf = f.buf[:0]
	for _, frame := range frames {
		f.buf = append(f.buf, frame...)
	}
	if f.at+int64(len(f.buf)) > fileBytes {
		f.at = 0
	}
	if _, err := f.file.WriteAt(f.buf, f.at); err != nil {
		return err
	}
	f.at += int64(len(f.buf))
	return syncData(f.file)
}

// Close removes the file.
func (f *File) Close() error { return errors.Join(f.file.Close(), os.Remove(f.file.Name())) }
