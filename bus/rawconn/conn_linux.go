package rawconn

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// conn is a TCP connection whose reads and writes are raw system calls. It hides what else a net.TCPConn can
// do, which would go past them.
type conn struct {
	net.Conn
	raw     syscall.RawConn
	in, out call
}

// call is one direction, used by one goroutine at a time.
type call struct {
	mu   sync.Mutex
	op   string
	trap uintptr
	b    []byte
	n    int
	err  syscall.Errno
	once func(fd uintptr) bool // the method, made once: a call allocates nothing
}

func wrap(c net.Conn) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return c
	}
	w := &conn{Conn: t, raw: raw}
	w.in.op, w.in.trap, w.in.once = "read", syscall.SYS_READ, w.in.do
	w.out.op, w.out.trap, w.out.once = "write", syscall.SYS_WRITE, w.out.do
	return w
}

// do returns false where the socket is not ready, and is called again when it is.
func (c *call) do(fd uintptr) bool {
	for {
		n, _, err := syscall.RawSyscall(c.trap, fd, uintptr(unsafe.Pointer(&c.b[0])), uintptr(len(c.b)))
		if err == syscall.EINTR {
			continue
		}
		c.n, c.err = int(n), err
		return err != syscall.EAGAIN
	}
}

// run makes one call on b, which is not empty, as soon as the socket is ready. Deadlines and Close end the
// wait.
func (c *call) run(wait func(func(uintptr) bool) error, b []byte) (int, error) {
	c.b = b
	err := wait(c.once)
	c.b = nil
	switch {
	case err != nil:
		return 0, err
	case c.err != 0:
		return 0, os.NewSyscallError(c.op, c.err)
	}
	return c.n, nil
}

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	n, err := c.in.run(c.raw.Read, b)
	if err != nil {
		return 0, c.failed(&c.in, err)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of b, and nobody else's bytes between.
func (c *conn) Write(b []byte) (done int, err error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	for done < len(b) {
		n, err := c.out.run(c.raw.Write, b[done:])
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF // as the net package has it; a socket does not do that
		}
		if err != nil {
			return done, c.failed(&c.out, err)
		}
		done += n
	}
	return done, nil
}

// failed says it as the net package does, which has wrapped deadlines and closed connections already.
func (c *conn) failed(x *call, err error) error {
	if e, ok := err.(*net.OpError); ok {
		err = e.Err
	}
	return &net.OpError{Op: x.op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
