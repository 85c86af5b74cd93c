package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Trees are written down as a version, what they are and how they were made, then their nodes and leaves, all
// numbers little-endian. What is read is judged: a tree is restored whole, or is as it was.
const (
	version     = 1
	aRegressor  = 'r'
	aClassifier = 'c'
	aGate       = 'g'
)

// ErrOther says that what is to be restored was made in another way: with other features, or settings.
var ErrOther = errors.New("tree: it was made with other features or settings")

type pen []byte

func (p *pen) byte(v byte)   { *p = append(*p, v) }
func (p *pen) int(v int)     { *p = binary.LittleEndian.AppendUint32(*p, uint32(v)) }
func (p *pen) long(v uint64) { *p = binary.LittleEndian.AppendUint64(*p, v) }
func (p *pen) flag(v bool) {
	if v {
		p.byte(1)
	} else {
		p.byte(0)
	}
}

func (p *pen) floats(vs ...float64) {
	for _, v := range vs {
		p.long(math.Float64bits(v))
	}
}

// reader reads what a pen wrote. The first fault stays, and what is read after it is nothing.
type reader struct {
	data []byte
	err  error
}

func (r *reader) fault(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("tree: "+format, args...)
		r.data = nil
	}
}

func (r *reader) take(n int) []byte {
	if len(r.data) < n {
		r.fault("it ends too early")
		return make([]byte, n)
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) byte() byte   { return r.take(1)[0] }
func (r *reader) long() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) flag() bool {
	v := r.byte()
	if v > 1 {
		r.fault("a flag is %d", v)
	}
	return v == 1
}

// int is a number from least to most.
func (r *reader) int(least, most int) int {
	v := int(int32(binary.LittleEndian.Uint32(r.take(4))))
	if v < least || v > most {
		r.fault("%d is not from %d to %d", v, least, most)
		return least
	}
	return v
}

// float is a number that a tree can have: squares of the greatest observations, added up for ever.
func (r *reader) float() float64 {
	v := math.Float64frombits(r.long())
	if !(math.Abs(v) <= 1e60) {
		r.fault("a number is %v", v)
		return 0
	}
	return v
}

// weight is one of 0 or above.
func (r *reader) weight() float64 {
	v := r.float()
	if v < 0 {
		r.fault("a weight is %v", v)
		return 0
	}
	return v
}

func (r *reader) fill(vs []float64) {
	for i := range vs {
		vs[i] = r.float()
	}
}

// head is what a tree is and how it was made.
func (c *Config) head(p *pen, kind byte, sizes ...int) {
	p.byte(version)
	p.byte(kind)
	p.floats(c.Grace, c.Delta, c.Tie, c.Least)
	for _, n := range append([]int{c.Depth, c.Leaves, c.Bytes}, sizes...) {
		p.int(n)
	}
}

// headed reads a head that must say the same.
func (r *reader) headed(c *Config, kind byte, sizes ...int) {
	var want pen
	c.head(&want, kind, sizes...)
	if got := r.take(len(want)); r.err == nil && string(got) != string(want) {
		if got[0] != version {
			r.fault("version %d, want %d", got[0], version)
		} else {
			r.err = ErrOther
		}
	}
}

func (b branches) write(p *pen) {
	p.int(len(b))
	for _, n := range b {
		p.int(int(n.feature))
		p.int(int(n.left))
		if n.feature >= 0 {
			p.int(int(n.right))
			p.floats(n.at)
		}
	}
}

// branches reads the splits of a tree, and returns how deep each leaf is.
func (r *reader) branches(c *Config, features int) (b branches, depths []int) {
	nodes := r.int(1, 1<<20)
	if nodes%2 == 0 || nodes*8 > len(r.data) {
		r.fault("%d nodes", nodes)
		return trunk(), []int{0}
	}
	b, depths = make(branches, nodes), make([]int, (nodes+1)/2)
	deep, numbered := make([]int, nodes), make([]bool, len(depths))
	for i := range deep {
		deep[i] = -1
	}
	deep[0] = 0
	for i := range b {
		n := &b[i]
		if deep[i] < 0 || deep[i] > c.Depth {
			r.fault("node %d is %d deep", i, deep[i])
			return trunk(), []int{0}
		}
		if n.feature = int32(r.int(-1, features-1)); n.feature < 0 {
			l := r.int(0, len(depths)-1)
			if numbered[l] {
				r.fault("leaf %d is there twice", l)
			}
			n.left, numbered[l], depths[l] = int32(l), true, deep[i]
			continue
		}
		n.left, n.right, n.at = int32(r.int(0, nodes-1)), int32(r.int(0, nodes-1)), r.float()
		if int(n.left) <= i || int(n.right) <= int(n.left) || deep[n.left] >= 0 || deep[n.right] >= 0 {
			r.fault("node %d leads to %d and %d", i, n.left, n.right)
			return trunk(), []int{0}
		}
		deep[n.left], deep[n.right] = deep[i]+1, deep[i]+1
	}
	return b, depths
}

// end says whether all was read, and soundly.
func (r *reader) end() error {
	if len(r.data) > 0 {
		r.fault("%d bytes too many", len(r.data))
	}
	return r.err
}

// MarshalBinary writes the tree down.
func (t *Regressor) MarshalBinary() ([]byte, error) {
	var p pen
	t.cfg.head(&p, aRegressor, t.features)
	t.branches.write(&p)
	for _, l := range t.leaves {
		p.flag(l.deepest)
		p.floats(l.n, l.sum, l.low, l.high, l.since, l.off[0], l.off[1])
		l.line.write(&p)
		if p.flag(l.watch != nil); l.watch != nil {
			l.watch.write(&p)
		}
	}
	return p, nil
}

// UnmarshalBinary restores a tree that was written down, into one that was made as that was.
func (t *Regressor) UnmarshalBinary(data []byte) error {
	r := &reader{data: data}
	r.headed(&t.cfg, aRegressor, t.features)
	b, depths := r.branches(&t.cfg, t.features)
	var leaves []*leaf
	for _, depth := range depths {
		if r.err != nil {
			return r.err
		}
		l := &leaf{depth: depth, deepest: r.flag(), n: r.weight(), sum: r.float(), low: r.float(),
			high: r.float(), since: r.weight(), off: [2]float64{r.weight(), r.weight()},
			line: r.line(t.features)}
		if r.flag() {
			l.watch = r.observer(t.features)
		}
		if l.low > l.high || l.deepest && l.watch != nil || !l.deepest && depth >= t.cfg.Depth {
			r.fault("leaf %d does not fit together", len(leaves))
		}
		leaves = append(leaves, l)
	}
	if err := r.end(); err != nil {
		return err
	}
	read := *t
	read.branches, read.leaves, read.rising = b, leaves, rising{}
	awake := 0
	for _, l := range leaves {
		if l.awake() {
			awake++
		}
	}
	if awake > t.cfg.Leaves || awake > 0 && read.Size() > t.cfg.Bytes {
		return fmt.Errorf("tree: %d leaves are awake, and all take %d bytes", awake, read.Size())
	}
	*t = read
	return nil
}

func (l *line) write(p *pen) {
	p.floats(l.n)
	p.floats(l.mean...)
	p.floats(l.off...)
	p.floats(l.coef...)
	p.int(l.news)
}

func (r *reader) line(features int) line {
	l := newLine(features)
	l.n = r.weight()
	r.fill(l.mean)
	r.fill(l.off)
	r.fill(l.coef)
	l.news = r.int(0, refit-1)
	return l
}

func (m *moments) write(p *pen) { p.floats(m.n, m.sum, m.squares) }

func (r *reader) moments() moments { return moments{r.weight(), r.float(), r.weight()} }

func (o *observer) write(p *pen) {
	p.floats(o.center)
	o.all.write(p)
	if p.flag(o.edges != nil); o.edges == nil {
		p.int(len(o.rows))
		p.floats(o.rows...)
		return
	}
	for f, edges := range o.edges {
		p.int(len(edges))
		p.floats(edges...)
		for _, m := range o.bins[f] {
			m.write(p)
		}
	}
}

func (r *reader) observer(features int) *observer {
	o := &observer{center: r.float(), all: r.moments()}
	if !r.flag() {
		wide := features + 2
		if n := r.int(0, (first-1)*wide); n > 0 {
			if n%wide > 0 || n*8 > len(r.data) {
				r.fault("%d numbers are no observations of %d", n, wide)
				return o
			}
			o.rows = make([]float64, n, first*wide)
			r.fill(o.rows)
			for i := 0; i < n; i += wide {
				if row := o.rows[i : i+wide]; r.err == nil && !sound(row[wide-1], row[:wide-2]...) {
					r.fault("what was seen first is no observation")
				}
			}
		}
		return o
	}
	o.edges, o.bins = make([][]float64, features), make([][]moments, features)
	for f := range features {
		n := r.int(0, bins-1)
		if n*8 > len(r.data) {
			r.fault("%d edges", n)
			return o
		}
		o.edges[f], o.bins[f] = make([]float64, n), make([]moments, n+1)
		r.fill(o.edges[f])
		for i := 1; i < n; i++ {
			if o.edges[f][i] <= o.edges[f][i-1] {
				r.fault("edges of feature %d do not ascend", f)
			}
		}
		for i := range o.bins[f] {
			o.bins[f][i] = r.moments()
		}
	}
	return o
}
