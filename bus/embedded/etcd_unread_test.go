package embedded_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"souk/bus"
	"souk/bus/embedded"
	"souk/bus/natsauth"
)

// secured is an etcd to which members show certificates.
type secured struct {
	*embedded.Etcd
	keys string
}

func startSecured(t *testing.T) secured {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "auth")
	if _, err := natsauth.Init(keys); err != nil {
		t.Fatal(err)
	}
	files, err := natsauth.ServerCert(keys, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	e := startEtcd(t, embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: files})
	t.Cleanup(func() { stop(t, e) })
	return secured{e, keys}
}

func (s secured) as(t *testing.T, name string) *tls.Config {
	t.Helper()
	files, err := natsauth.ClientCert(s.keys, name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := natsauth.TLSOf(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s secured) client(t *testing.T, name string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, TLS: s.as(t, name)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// rude is a connection of a member that keeps to no manners of a client's.
type rude struct {
	*http2.Framer
	t     *testing.T
	conn  *tls.Conn
	last  uint32
	room  int // bytes that the server takes on the connection
	heads hpack.Encoder
	head  bytes.Buffer
}

func (s secured) rude(t *testing.T, name string) *rude {
	t.Helper()
	config := s.as(t, name)
	config.NextProtos, config.ServerName = []string{"h2"}, "127.0.0.1"
	conn, err := tls.Dial("tcp", s.Endpoint(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	io.WriteString(conn, http2.ClientPreface)
	r := &rude{Framer: http2.NewFramer(conn, conn), t: t, conn: conn, room: 65535}
	r.heads = *hpack.NewEncoder(&r.head)
	r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) // it reads nothing
	r.WriteSettingsAck()
	return r
}

// begin opens a request.
func (r *rude) begin(method string) uint32 {
	r.head.Reset()
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", method},
		{":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		r.heads.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	r.last += 2
	id := r.last - 1
	r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.head.Bytes(), EndHeaders: true})
	return id
}

func (r *rude) says(id uint32, m proto.Message, all bool) {
	r.t.Helper()
	text, err := proto.Marshal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	b := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
	if err := r.WriteData(id, all, b); err != nil {
		r.t.Fatal(err)
	}
}

// halfOf sends the first bytes of a message that would have twice as many, as the server takes them.
func (r *rude) halfOf(id uint32, bytes int) {
	r.t.Helper()
	for r.room < bytes {
		f, err := r.ReadFrame()
		if err != nil {
			r.t.Fatal(err)
		}
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == 0 {
			r.room += int(w.Increment)
		}
	}
	r.room -= bytes
	b := make([]byte, bytes)
	binary.BigEndian.PutUint32(b[1:], uint32(2*bytes))
	for len(b) > 0 {
		n := min(len(b), 16<<10)
		r.WriteData(id, false, b[:n])
		b = b[n:]
	}
}

// cut reads until the server has closed the connection, and returns the most that was alive in the heap
// meanwhile.
func (r *rude) cut(within time.Duration) (most uint64) {
	r.t.Helper()
	r.conn.SetReadDeadline(time.Now().Add(within))
	for {
		most = max(most, live())
		if _, err := r.ReadFrame(); err != nil {
			if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
				r.t.Errorf("a member that reads nothing is there after %v: %v", within, err)
			}
			return most
		}
	}
}

// live returns the bytes that the last collection found alive: between two collections, which a busy machine
// puts off, the heap itself says nothing of what is held.
func live() uint64 {
	x := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(x)
	return x[0].Value.Uint64()
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// Nobody fills the server's memory with requests of which the half has come, on however many connections.
func TestHalvesOfRequestsAreBounded(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	s := startSecured(t)
	runtime.GC()
	before := heap()
	for range 4 {
		r := s.rude(t, "node-1")
		for range 600 {
			r.halfOf(r.begin("/etcdserverpb.KV/Put"), 40_000)
		}
		r.WritePing(false, [8]byte{1})
		for { // until all has been heard
			f, err := r.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
				break
			}
		}
	}
	runtime.GC()
	if grown := int64(heap()-before) >> 20; grown > 64 {
		t.Errorf("one member's halves of requests take %d MB", grown)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.client(t, "math").Get(ctx, bus.AgentKey("a1")); err != nil {
		t.Errorf("another member: %v", err)
	}
}

// Nor with what it asks for and does not read: it is cut off.
func TestWhoReadsNothingIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	s := startSecured(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // some seconds, on a machine of its own
	defer cancel()
	client, key := s.client(t, "node-1"), bus.AgentKey("a1")
	for range 60 {
		if _, err := client.Put(ctx, key, strings.Repeat("x", bus.MaxEntry)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 256 {
		_, err := s.Client.Put(ctx, fmt.Sprint("/souk/v1/keys/", i), strings.Repeat("x", bus.MaxEntry))
		if err != nil {
			t.Fatal(err)
		}
	}
	watch := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte(key), StartRevision: 1}}}
	const watchMethod = "/etcdserverpb.Watch/Watch"
	for what, does := range map[string]func(r *rude){
		"many streams of watches": func(r *rude) {
			for range 100 {
				r.says(r.begin(watchMethod), watch, false)
			}
		},
		"many watches of one stream": func(r *rude) {
			id := r.begin(watchMethod)
			for range 100 {
				r.says(id, watch, false)
			}
		},
		"many keys, 16 times": func(r *rude) {
			for range 16 {
				r.says(r.begin("/etcdserverpb.KV/Range"), &pb.RangeRequest{Key: []byte("/souk/v1/keys/"),
					RangeEnd: []byte("/souk/v1/keys0")}, true)
			}
		},
		"many values": func(r *rude) {
			for range 1000 {
				r.says(r.begin("/etcdserverpb.KV/Range"), &pb.RangeRequest{Key: []byte(key)}, true)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			runtime.GC()
			before := live()
			r := s.rude(t, "node-1")
			does(r)
			if grown := int64(r.cut(time.Minute)-before) >> 20; grown > 160 {
				t.Errorf("what is not read takes %d MB", grown)
			}
		})
	}
	if _, err := client.Get(ctx, key); err != nil {
		t.Errorf("the member, where it reads: %v", err)
	}
	all := clientv3.OpGet("/souk/v1/keys/", clientv3.WithPrefix())
	within := clientv3.OpTxn(nil, []clientv3.Op{all}, nil)
	for _, op := range []clientv3.Op{all, within} {
		if _, err := client.Txn(ctx).Then(op, op, op, op).Commit(); err == nil ||
			!strings.Contains(err.Error(), "many keys") {
			t.Errorf("many keys, many times in a transaction: %v", err)
		}
	}
}
