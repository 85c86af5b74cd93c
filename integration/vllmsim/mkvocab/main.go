// Command mkvocab learns the stand-in's vocabulary: byte-pair encoding over the pieces of the texts on
// standard input.
//
//	cat TEXTS | go run ./integration/vllmsim/mkvocab > integration/vllmsim/vocab.txt
//
// It writes one token a line, quoted as Go does, in the order learned. Ties go to the pair whose text sorts
// first, so the same input gives the same file.
package main

import (
	"bufio"
	"container/heap"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sort"
	"strconv"

	"souk/integration/vllmsim"
)

func main() {
	size := flag.Int("size", 24000, "tokens to learn, beside the 256 bytes and the special ones")
	flag.Parse()
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(os.Stdout)
	for _, t := range learn(string(text), *size) {
		fmt.Fprintln(out, strconv.Quote(t))
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

type word struct {
	parts []int32
	count int
}

type pair struct{ a, b int32 }

// learner holds the words as they are split now, and how often each pair stands side by side.
type learner struct {
	names []string
	words []word
	count map[pair]int
	where map[pair]map[int]bool
	queue pairs
}

func learn(text string, size int) []string {
	l := &learner{count: map[pair]int{}, where: map[pair]map[int]bool{}}
	for b := range 256 {
		l.names = append(l.names, string([]byte{byte(b)}))
	}
	l.read(text)
	for p := range l.count {
		l.push(p)
	}
	heap.Init(&l.queue)
	known := map[string]bool{}
	var learned []string
	for len(learned) < size && len(l.queue) > 0 {
		top := heap.Pop(&l.queue).(candidate)
		if l.count[top.pair] != top.count || top.count < 2 {
			continue // an old entry; a newer one is in the queue
		}
		name := top.text
		id := int32(len(l.names))
		l.names = append(l.names, name)
		l.merge(top.pair, id)
		if !known[name] { // two ways to build one text would make its encoding ambiguous
			known[name] = true
			learned = append(learned, name)
		}
	}
	return learned
}

func (l *learner) read(text string) {
	counts := map[string]int{}
	for _, p := range vllmsim.Pieces(text) {
		counts[p]++
	}
	var all []string
	for p, n := range counts {
		if n > 1 || len(p) < 20 {
			all = append(all, p)
		}
	}
	sort.Strings(all)
	for _, p := range all {
		w := word{count: counts[p]}
		for i := range len(p) {
			w.parts = append(w.parts, int32(p[i]))
		}
		l.words = append(l.words, w)
		l.note(len(l.words)-1, +1)
	}
}

func (l *learner) note(i, sign int) {
	w := l.words[i]
	for k := 1; k < len(w.parts); k++ {
		p := pair{w.parts[k-1], w.parts[k]}
		l.count[p] += sign * w.count
		if sign > 0 {
			if l.where[p] == nil {
				l.where[p] = map[int]bool{}
			}
			l.where[p][i] = true
		}
	}
}

func (l *learner) merge(p pair, id int32) {
	touched := map[pair]bool{}
	var in []int
	for i := range l.where[p] {
		in = append(in, i)
	}
	for _, i := range in {
		l.touch(i, touched)
		l.note(i, -1)
		w := &l.words[i]
		parts := w.parts[:0]
		for k := 0; k < len(w.parts); k++ {
			if k+1 < len(w.parts) && w.parts[k] == p.a && w.parts[k+1] == p.b {
				parts = append(parts, id)
				k++
			} else {
				parts = append(parts, w.parts[k])
			}
		}
		w.parts = parts
		l.note(i, +1)
		l.touch(i, touched)
	}
	delete(l.where, p)
	for q := range touched {
		l.push(q)
	}
}

func (l *learner) touch(i int, touched map[pair]bool) {
	parts := l.words[i].parts
	for k := 1; k < len(parts); k++ {
		touched[pair{parts[k-1], parts[k]}] = true
	}
}

func (l *learner) push(p pair) {
	if n := l.count[p]; n > 1 {
		heap.Push(&l.queue, candidate{p, n, l.names[p.a] + l.names[p.b]})
	}
}

type candidate struct {
	pair  pair
	count int
	text  string
}

type pairs []candidate

func (q pairs) Len() int { return len(q) }
func (q pairs) Less(i, j int) bool {
	if q[i].count != q[j].count {
		return q[i].count > q[j].count
	}
	if q[i].text != q[j].text {
		return q[i].text < q[j].text
	}
	return q[i].pair.a < q[j].pair.a
}
func (q pairs) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *pairs) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *pairs) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
