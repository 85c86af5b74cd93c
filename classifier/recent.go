package classifier

// recent remembers a bounded number of names by a 64-bit key: at least the last n that were used, at most
// twice as many. Two generations replace the list of an LRU: what is used moves to the young one, and when
// that is full the old one is dropped whole.
type recent struct {
	n          int
	young, old map[uint64]string
}

func newRecent(n int) recent { return recent{n: n, young: map[uint64]string{}} }

func (r *recent) get(key uint64) string {
	v := r.see(key)
	if _, ok := r.young[key]; !ok && v != "" {
		r.put(key, v)
	}
	return v
}

// see is get for one that is no use.
func (r *recent) see(key uint64) string {
	if v, ok := r.young[key]; ok {
		return v
	}
	return r.old[key]
}

func (r *recent) put(key uint64, v string) {
	if _, ok := r.young[key]; !ok && len(r.young) >= r.n {
		r.old, r.young = r.young, make(map[uint64]string, r.n/4)
	}
	r.young[key] = v
}

func (r *recent) drop(key uint64) {
	delete(r.young, key)
	delete(r.old, key)
}
