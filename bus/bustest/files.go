package bustest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Files reads every file below a folder, by path, without the zeros at its end: etcd's log takes 64 MB from
// its first byte on.
func Files(dir string) (texts map[string][]byte, err error) {
	texts = map[string][]byte{}
	piece, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var text []byte
		for read := 0; err == nil; {
			var n int
			n, err = io.ReadFull(f, piece)
			if !bytes.Equal(piece[:n], zeros[:n]) {
				text = append(append(text, make([]byte, read-len(text))...), piece[:n]...)
			}
			read += n
		}
		texts[path] = bytes.TrimRight(text, "\x00")
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		return err
	})
	return texts, err
}
