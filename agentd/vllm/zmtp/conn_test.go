package zmtp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// wire is a connection whose other side said all it has to say before it was asked.
type wire struct {
	io.Reader
	wrote  bytes.Buffer
	closed bool
}

func (w *wire) Write(b []byte) (int, error)      { return w.wrote.Write(b) }
func (w *wire) Close() error                     { w.closed = true; return nil }
func (w *wire) LocalAddr() net.Addr              { return nil }
func (w *wire) RemoteAddr() net.Addr             { return nil }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// hello returns a socket's greeting.
func hello(minor byte, is string) []byte {
	b := make([]byte, 64)
	b[0], b[9], b[10], b[11] = 0xff, 0x7f, 3, minor
	copy(b[12:], "NULL")
	body := append([]byte("\x05READY\x0bSocket-Type"), binary.BigEndian.AppendUint32(nil, uint32(len(is)))...)
	body = append(append(body, is...), "\x08Identity\x00\x00\x00\x00"...)
	return append(append(b, 4, byte(len(body))), body...)
}

// frame is one frame; long frames have a length of 8 bytes.
func frame(flags byte, body string) []byte {
	if flags&long != 0 {
		return append(binary.BigEndian.AppendUint64([]byte{flags}, uint64(len(body))), body...)
	}
	return append([]byte{flags, byte(len(body))}, body...)
}

func said(parts ...[]byte) *wire { return &wire{Reader: bytes.NewReader(bytes.Join(parts, nil))} }

// Messages come as they were sent, in short frames and long ones; commands by name; pings are answered.
func TestConn(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	w := said(hello(1, "PUB"), frame(more, "kv"), frame(more, ""), frame(long, large),
		frame(command, "\x04PING\x00\x0ahere"), frame(command|long, "\x05OTHERdata"), frame(0, "last"))
	c, err := Meet(w, "SUB")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Read()
	if err != nil || len(m.Frames) != 3 || string(m.Frames[0]) != "kv" || len(m.Frames[1]) != 0 ||
		string(m.Frames[2]) != large {
		t.Errorf("%d frames, %v", len(m.Frames), err)
	}
	w.wrote.Reset()
	if m, err = c.Read(); err != nil || m.Command != "OTHER" || string(m.Frames[0]) != "data" {
		t.Errorf("%+v %v", m, err)
	}
	if got, want := w.wrote.String(), string(frame(command, "\x04PONGhere")); got != want {
		t.Errorf("a ping is answered by %q, want %q", got, want)
	}
	if m, err = c.Read(); err != nil || string(m.Frames[0]) != "last" {
		t.Errorf("%+v %v", m, err)
	}
	if _, err = c.Read(); err != io.EOF {
		t.Error(err)
	}
	for minor, want := range []string{string(frame(0, "\x01")), string(frame(command, "\x09SUBSCRIBE"))} {
		w := said(hello(byte(minor), "XPUB"))
		c, err := Meet(w, "SUB")
		if err != nil {
			t.Fatal(err)
		}
		w.wrote.Reset()
		if err := c.subscribe(); err != nil || w.wrote.String() != want {
			t.Errorf("3.%d: subscribes by %q, want %q, %v", minor, w.wrote.String(), want, err)
		}
	}
}

// Who is not spoken to is told apart by the reason, and cut off.
func TestMeetRefuses(t *testing.T) {
	change := func(at int, to byte) []byte {
		b := hello(1, "PUB")
		b[at] = to
		return b
	}
	for why, first := range map[string][]byte{
		"does not speak ZMTP": change(0, 'G'),
		"it speaks ZMTP 2":    change(10, 2),
		"wants security":      change(12, 'C'),
		"it is a \"SUB\"":     hello(1, "SUB"),
		"it is a \"\"":        append(hello(1, "PUB")[:64], frame(command, "\x05READY")...),
		"instead of READY":    append(hello(1, "PUB")[:64], frame(command, "\x05ERROR\x04away")...),
		"READY breaks off":    append(hello(1, "PUB")[:64], frame(command, "\x05READY\x0bSocket")...),
		"EOF":                 hello(1, "PUB")[:40],
		"begins with byte":    append(hello(1, "PUB")[:64], 0xff),
	} {
		w := said(first)
		if _, err := Meet(w, "SUB"); err == nil || !strings.Contains(err.Error(), why) || !w.closed {
			t.Errorf("%v, want %q; closed %v", err, why, w.closed)
		}
	}
}

// A header of a frame with a length that nobody sends ends its connection, whatever the length; so does a
// message of too many frames. Nothing is allocated for what does not come.
func TestFramesThatAreTooLong(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"2^62":               {long, 0x40, 0, 0, 0, 0, 0, 0, 0},
		"2^64-1":             {long, 255, 255, 255, 255, 255, 255, 255, 255},
		"2^63":               {long, 0x80, 0, 0, 0, 0, 0, 0, 0},
		"a command, 2^62":    {long | command, 0x40, 0, 0, 0, 0, 0, 0, 0},
		"a little too long":  {long, 0, 0, 0, 0, 1, 0, 0, 1},
		"too long together":  append(frame(more, "x"), long, 0, 0, 0, 0, 1, 0, 0, 0),
		"frames":             []byte(strings.Repeat("\x01\x00", maxFrames+1)),
		"16 MB, and no more": {long, 0, 0, 0, 0, 1, 0, 0, 0},
		"no name":            frame(command, ""),
		"half a name":        frame(command, "\x09SUB"),
		"a command in parts": append(frame(more, "x"), frame(command, "\x04PING")...),
	} {
		c, err := Meet(said(hello(1, "PUB"), bytes), "SUB")
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := c.Read()
		runtime.ReadMemStats(&after)
		if err == nil || m.Command != "" {
			t.Errorf("%s: %+v %v", name, m, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
}

// Who connects and says nothing, or half of what he began, is cut off; who has said all may be silent.
func TestSilence(t *testing.T) {
	for name, test := range map[string]struct {
		says []byte
		want time.Duration // when it is cut off; 0: never
		met  bool
	}{
		"nothing":        {want: greeting},
		"half a hello":   {says: hello(1, "PUB")[:70], want: greeting},
		"half a frame":   {says: append(hello(1, "PUB"), 0, 9, 'x'), want: whole, met: true},
		"half a message": {says: append(hello(1, "PUB"), frame(more, "x")...), want: whole, met: true},
		"a hello":        {says: hello(1, "PUB"), met: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				go io.Copy(io.Discard, theirs)
				go theirs.Write(test.says)
				start := time.Now()
				c, err := Meet(ours, "SUB")
				if (err == nil) != test.met {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				if err == nil {
					go func() {
						_, err := c.Read()
						ended <- err
					}()
					time.AfterFunc(time.Hour, func() { theirs.Close() })
					err = <-ended
				}
				if took := time.Since(start); test.want > 0 && (took != test.want ||
					!errors.Is(err, os.ErrDeadlineExceeded)) || test.want == 0 && took != time.Hour {
					t.Errorf("ended after %v by %v, want %v", took, err, test.want)
				}
				ours.Close()
				theirs.Close()
			})
		})
	}
}

// A replay that falls silent is given up.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go io.Copy(io.Discard, theirs)
		go theirs.Write(append(hello(1, "ROUTER"), frame(0, "x")...))
		c, err := Meet(ours, "DEALER")
		if err != nil {
			t.Fatal(err)
		}
		c.Quiet = time.Minute
		if m, err := c.Read(); err != nil || string(m.Frames[0]) != "x" {
			t.Fatal(m, err)
		}
		start := time.Now()
		if _, err := c.Read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
			t.Error(err, time.Since(start))
		}
		ours.Close()
		theirs.Close()
	})
}

// Who does not take what is written to him is cut off.
func TestWriteToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := &Conn{c: ours}
		start := time.Now()
		err := c.Write([]byte("x"))
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != written {
			t.Error(err, took)
		}
		ours.Close()
		theirs.Close()
	})
}

// FuzzConn: whatever comes, it is read as messages no larger than what came, or the connection ends.
func FuzzConn(f *testing.F) {
	f.Add(append(hello(1, "PUB"), frame(more, "kv")...))
	f.Add(append(hello(0, "PUB"), bytes.Join([][]byte{frame(more, "kv"), frame(long, "12345678"),
		frame(command, "\x04PING\x00\x00x")}, nil)...))
	f.Add(append(hello(1, "XPUB"), long, 0x40, 0, 0, 0, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, all := range [][]byte{data, append(hello(1, "PUB"), data...)} {
			w := said(all)
			c, err := Meet(w, "SUB")
			if err != nil {
				if !w.closed {
					t.Error("refused, and open")
				}
				continue
			}
			got := 0
			for {
				m, err := c.Read()
				if err != nil {
					break
				}
				for _, f := range m.Frames {
					got += len(f) + 2
				}
				if len(m.Frames) == 0 || len(m.Frames) > maxFrames {
					t.Errorf("%d frames", len(m.Frames))
				}
			}
			if got > len(all) || w.wrote.Len() > 200+2*len(all) {
				t.Errorf("%d bytes read and %d written of %d", got, w.wrote.Len(), len(all))
			}
		}
	})
}
