package journal

import (
	"path/filepath"

	"souk/bus/metrics"
)

// what an operator sees of a journal that is open for writing; label journal is its name
var (
	families = metrics.Set{Labels: []string{"journal"}}

	syncSeconds = families.Seconds("souk_journal_sync_seconds", "Time until frames that were written together are "+
		"durable: one write and sync.", []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1})
	framesTotal = families.Counter("souk_journal_frames_total", "Frames that the journal holds, since it was begun.")
	bytesTotal  = families.Counter("souk_journal_bytes_total", "Bytes of frames that were written since the start.")
	diskFree    = families.Gauge("souk_journal_disk_free_bytes", "Bytes that are free on the journal's disk.")
	diskNeeded  = families.Gauge("souk_journal_disk_needed_bytes", "Below so many free bytes nothing new is taken.")
)

// observe has a collector read them.
func (j *Journal) observe() {
	name := filepath.Base(j.dir)
	j.saves = families.Recorder(j.cfg.Meter, syncSeconds, name)
	families.Observe(j.cfg.Meter, func(say metrics.Say) {
		free, needed := j.Room()
		j.mu.Lock()
		seq, wrote := j.last.Seq, j.wrote
		j.mu.Unlock()
		say(framesTotal, float64(seq))
		say(bytesTotal, float64(wrote))
		say(diskFree, float64(free))
		say(diskNeeded, float64(needed))
	}, name)
}
