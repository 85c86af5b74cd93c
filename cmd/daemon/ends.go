package daemon

import (
	"context"
	"time"

	"souk/bus/follow"
	"souk/bus/natsauth"
)

// How often a process looks when its creds and its certificate end, and how often it warns that they do.
const (
	endsEvery = time.Hour
	warnEvery = 24 * time.Hour
)

// ends reads which ends first, creds or certificate, and when; the zero time: neither does, or can be read.
func (l *Link) ends() (what string, when time.Time) {
	if l.creds != nil {
		if i, err := l.creds(); err == nil {
			what, when = "creds", i.Expires
		}
	}
	if at := l.files.Expires(); !at.IsZero() && (when.IsZero() || at.Before(when)) {
		what, when = "certificate", at
	}
	return what, when
}

// Expires is when the first of the process's creds and certificate ends, of the files as they are now; the
// zero time: neither does.
func (l *Link) Expires() time.Time {
	_, when := l.ends()
	return when
}

// watchEnds warns once a day from natsauth.Warn before the end of the creds or the certificate on, until they
// are renewed.
func (p *Process) watchEnds(ctx context.Context, l *Link, name string) {
	var said time.Time
	for {
		now := time.Now()
		what, when := l.ends()
		if left := when.Sub(now); !when.IsZero() && left < natsauth.Warn && now.Sub(said) >= warnEvery {
			said = now
			p.Log.Warn("the "+what+" of this process will end; then it is let in nowhere: renew them where the "+
				"keys are (souk auth renew "+name+"), and put the new files in place of these; no restart is needed",
				"ends", when.UTC().Format(time.RFC3339), "in", left.Round(time.Minute))
		}
		if !follow.Pause(ctx, endsEvery) {
			return
		}
	}
}
