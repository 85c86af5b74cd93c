package hub

// recent is a map that forgets its oldest entries beyond a limit. An entry written again keeps its age.
type recent[K comparable, V any] struct {
	limit int
	m     map[K]V
	ring  []K
	at    int
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{limit: limit, m: map[K]V{}}
}

func (r *recent[K, V]) get(k K) (V, bool) {
	v, ok := r.m[k]
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if _, ok := r.m[k]; !ok {
		if len(r.ring) < r.limit {
			r.ring = append(r.ring, k)
		} else {
			delete(r.m, r.ring[r.at])
			r.ring[r.at] = k
			r.at = (r.at + 1) % r.limit
		}
	}
	r.m[k] = v
}
