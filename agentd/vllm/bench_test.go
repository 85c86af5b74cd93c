package vllm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"souk/agentd"
)

const plain = `{"id":"chatcmpl-9b1f67bbfbd476c2","object":"chat.completion.chunk","created":1795175355,"model":"tiny","choices":[{"index":0,"delta":{"content":" solutions"},"logprobs":null,"finish_reason":null,"token_ids":[2548]}]}`

func BenchmarkEvent(b *testing.B) {
	b.ReportAllocs()
	var t batch
	payload := []byte(plain)
	for b.Loop() {
		if t.add(payload) != nil {
			b.Fatal("not read")
		}
		t.text, t.ids = t.text[:0], t.ids[:0]
	}
}

// The first event of an answer to a prompt of 100,000 tokens lists their ids.
func BenchmarkPromptIDs(b *testing.B) {
	payload := []byte(`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"token_ids":[1]}],` +
		`"prompt_token_ids":[151644` + strings.Repeat(",100257", 99_999) + `]}`)
	b.ReportAllocs()
	var t batch
	for b.Loop() {
		if t.add(payload) != nil || len(t.prompt) != 100_000 {
			b.Fatal("not read")
		}
		sink = t.take()
	}
}

// What a relayed token costs from the socket's bytes to a Chunk, by how many tokens a read yields. Reads come
// from memory: the kernel's share is in BenchmarkTokenHTTP.
func BenchmarkToken(b *testing.B) {
	for _, each := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("%d_a_read", each), func(b *testing.B) {
			b.ReportAllocs()
			one := []byte(strings.Repeat("data: "+plain+"\n\n", each))
			s := stream{body: loop(one), buf: make([]byte, readSize), max: 1 << 20}
			for n := 0; n < b.N; n += each {
				if _, err := s.next(); err != nil {
					b.Fatal(err)
				}
				sink = s.batch.take()
			}
		})
	}
}

var sink agentd.Chunk // keeps the compiler from leaving the work out

type loop []byte

func (l loop) Read(p []byte) (int, error) { return copy(p, l), nil }

// A whole token over loopback HTTP, the benchmark's server included; each token is one write.
func BenchmarkTokenHTTP(b *testing.B) {
	url := serve(b, func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			MaxTokens int `json:"max_tokens"`
		}
		json.NewDecoder(r.Body).Decode(&q)
		w.Header().Set("Content-Type", "text/event-stream")
		for range q.MaxTokens {
			io.WriteString(w, "data: "+plain+"\n\n")
			w.(http.Flusher).Flush()
		}
		send(w, finish, done)
	}).URL
	e := engineAt(b, url)
	b.ReportAllocs()
	b.ResetTimer()
	r := hello
	r.MaxTokens = b.N
	n := 0
	if _, err := e.Complete(context.Background(), r,
		func(c agentd.Chunk) error { n++; return nil }); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/float64(b.N), "reads/token")
}

// A short answer: what a task costs beside its tokens.
func BenchmarkComplete(b *testing.B) {
	url := events(b, false, role+word+word+finish+done).URL
	e := engineAt(b, url)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Complete(context.Background(), hello,
			func(agentd.Chunk) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
