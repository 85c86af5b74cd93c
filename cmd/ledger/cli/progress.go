package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"

	"souk/cmd/console"
	"souk/ledger/inspect"
)

// progress shows how much of journals was read, on a terminal alone, once that has taken half a second.
type progress struct {
	total, done int64
	frames      int
	begun       time.Time
	bar         *progressbar.ProgressBar // nil: not shown yet
}

// watch begins to show it.
func (p *progress) watch(sources []*inspect.Source) {
	*p = progress{begun: time.Now()}
	for _, s := range sources {
		p.total += s.Size()
		s.Progress = p.read
	}
}

func (p *progress) read(bytes int) {
	p.done += int64(bytes)
	if p.frames++; p.frames%256 != 0 || p.bar == nil && time.Since(p.begun) < time.Second/2 {
		return
	}
	if p.bar == nil {
		p.bar = console.Bar(int(p.total>>20)+1, "MB read")
	}
	_ = p.bar.Set(int(min(p.done, p.total) >> 20)) // what cannot be shown is no reason to stop
}

// end leaves the line empty.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
