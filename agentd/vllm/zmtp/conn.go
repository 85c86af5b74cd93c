// Package zmtp speaks as much of ZeroMQ's protocol, ZMTP 3.1 with mechanism NULL, as it takes to hear a
// publisher and to ask its replay. Whatever the other side sends, or does not, it costs bounded memory, ends
// nothing but its own connection, and keeps nobody else waiting. Connections stay on this machine.
package zmtp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// MaxMessage is the most that a message has, in bytes of all its frames: a connection that says it will
	// send more is cut off.
	MaxMessage = 16 << 20
	maxFrames  = 16
	greeting   = 2 * time.Second  // in which two sides have met
	whole      = 10 * time.Second // in which a message that has begun has come
	written    = 5 * time.Second  // in which the other side takes what is written
)

// Bits of a frame's first byte.
const (
	more    = 1
	long    = 2
	command = 4
)

// peers lists the socket types that each type may talk to.
var peers = map[string][]string{
	"SUB": {"PUB", "XPUB"}, "PUB": {"SUB", "XSUB"},
	"DEALER": {"ROUTER", "DEALER", "REP"}, "ROUTER": {"DEALER", "REQ", "ROUTER"},
}

// Conn is a connection on which two sockets have met.
type Conn struct {
	// Quiet bounds how long the other side may be silent between two messages; 0: for ever.
	Quiet time.Duration

	c     net.Conn
	r     *bufio.Reader
	minor byte // of the other side's version 3
	mu    sync.Mutex
	out   []byte
}

// Message is one message: a command of the protocol, or frames.
type Message struct {
	Command string
	Frames  [][]byte // of a command: one, what follows its name
}

// Meet greets the other side as a socket of a type. It closes the connection if they do not come together.
func Meet(nc net.Conn, as string) (*Conn, error) {
	c := &Conn{c: nc, r: bufio.NewReaderSize(nc, 64<<10)}
	_ = nc.SetDeadline(time.Now().Add(greeting))
	if err := c.greet(as); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("greeting a publisher or its replay: %w", err)
	}
	_ = nc.SetDeadline(time.Time{})
	return c, nil
}

// Close ends the connection; whoever reads from it or writes to it, stops.
func (c *Conn) Close() error { return c.c.Close() }

func (c *Conn) greet(as string) error {
	hello := [64]byte{0: 0xff, 9: 0x7f, 10: 3, 11: 1}
	copy(hello[12:], "NULL")
	if _, err := c.c.Write(hello[:]); err != nil {
		return err
	}
	var other [64]byte
	if _, err := io.ReadFull(c.r, other[:]); err != nil {
		return err
	}
	switch name := string(bytes.TrimRight(other[12:32], "\x00")); {
	case other[0] != 0xff || other[9]&1 == 0:
		return errors.New("it does not speak ZMTP")
	case other[10] < 3:
		return fmt.Errorf("it speaks ZMTP %d, 3 is wanted", other[10])
	case name != "NULL":
		return fmt.Errorf("it wants security %.20q, NULL is all that is spoken here", name)
	}
	c.minor = other[11]
	ready := binary.BigEndian.AppendUint32([]byte("\x0bSocket-Type"), uint32(len(as)))
	if err := c.Command("READY", append(ready, as...)); err != nil {
		return err
	}
	m, err := c.read()
	if err != nil {
		return err
	}
	if m.Command != "READY" {
		return fmt.Errorf("it says %.20q and %.80q instead of READY", m.Command, m.Frames)
	}
	is, err := socketType(m.Frames[0])
	if err == nil && !slices.Contains(peers[as], is) {
		err = fmt.Errorf("it is a %.20q: a %s talks to %s", is, as, strings.Join(peers[as], " or "))
	}
	return err
}

// socketType reads a READY's properties: of each a name, after one byte of length, and a value, after four.
func socketType(b []byte) (is string, err error) {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			return "", errors.New("its READY breaks off")
		}
		name, size := string(b[1:1+n]), binary.BigEndian.Uint32(b[1+n:])
		b = b[1+n+4:]
		if uint64(size) > uint64(len(b)) {
			return "", errors.New("its READY breaks off")
		}
		if strings.EqualFold(name, "Socket-Type") {
			is = string(b[:size])
		}
		b = b[size:]
	}
	return is, nil
}

// Read is the next message or command. Pings are answered. It fails for good where the connection ends, and
// where the other side says what cannot be, too much, or half a message.
func (c *Conn) Read() (Message, error) {
	for {
		var until time.Time
		if c.Quiet > 0 {
			until = time.Now().Add(c.Quiet)
		}
		_ = c.c.SetReadDeadline(until)
		if _, err := c.r.Peek(1); err != nil {
			return Message{}, err
		}
		_ = c.c.SetReadDeadline(time.Now().Add(whole))
		m, err := c.read()
		if err == nil && m.Command == "PING" {
			ping := m.Frames[0] // two bytes of time to live, then what comes back
			err = c.Command("PONG", ping[min(2, len(ping)):min(18, len(ping))])
			if err == nil {
				continue
			}
		}
		return m, err
	}
}

// read reads one message, frame by frame.
func (c *Conn) read() (m Message, err error) {
	left := MaxMessage
	for {
		flags, err := c.r.ReadByte()
		if err != nil {
			return m, err
		}
		if flags&^(more|long|command) != 0 || flags&command != 0 && (flags&more != 0 || m.Frames != nil) {
			return m, fmt.Errorf("a frame begins with byte %#x", flags)
		}
		var head [8]byte
		at := 7
		if flags&long != 0 {
			at = 0
		}
		if _, err := io.ReadFull(c.r, head[at:]); err != nil {
			return m, err
		}
		n := binary.BigEndian.Uint64(head[:])
		if n > uint64(left) || len(m.Frames) == maxFrames {
			return m, fmt.Errorf("a message of %d bytes and more in %d frames: at most %d in %d are taken",
				uint64(MaxMessage-left)+n, len(m.Frames)+1, MaxMessage, maxFrames)
		}
		left -= int(n)
		frame, err := c.body(int(n))
		if err != nil {
			return m, err
		}
		if flags&command != 0 {
			if len(frame) == 0 || len(frame) < 1+int(frame[0]) {
				return m, errors.New("a command has no name")
			}
			name := 1 + int(frame[0])
			return Message{Command: string(frame[1:name]), Frames: [][]byte{frame[name:]}}, nil
		}
		m.Frames = append(m.Frames, frame)
		if flags&more == 0 {
			return m, nil
		}
	}
}

// body reads n bytes. What is long is not believed before it comes: memory grows with what has come.
func (c *Conn) body(n int) ([]byte, error) {
	const atOnce = 64 << 10
	if n <= atOnce {
		b := make([]byte, n)
		_, err := io.ReadFull(c.r, b)
		return b, err
	}
	var b bytes.Buffer
	b.Grow(atOnce)
	_, err := io.CopyN(&b, c.r, int64(n))
	return b.Bytes(), err
}

// Write sends a message.
func (c *Conn) Write(frames ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[:0]
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = more
		}
		c.frame(flags, f)
	}
	return c.flush()
}

// Command sends a command of the protocol.
func (c *Conn) Command(name string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[:0]
	c.frame(command, append(append([]byte{byte(len(name))}, name...), data...))
	return c.flush()
}

func (c *Conn) frame(flags byte, b []byte) {
	if len(b) < 256 {
		c.out = append(c.out, flags, byte(len(b)))
	} else {
		c.out = binary.BigEndian.AppendUint64(append(c.out, flags|long), uint64(len(b)))
	}
	c.out = append(c.out, b...)
}

func (c *Conn) flush() error {
	_ = c.c.SetWriteDeadline(time.Now().Add(written))
	_, err := c.c.Write(c.out)
	if cap(c.out) > 1<<20 {
		c.out = nil
	}
	return err
}

// subscribe asks a publisher for all it has, as its version wants it said.
func (c *Conn) subscribe() error {
	if c.minor == 0 {
		return c.Write([]byte{1})
	}
	return c.Command("SUBSCRIBE", nil)
}
