package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"souk/bus/regular"
)

// Hung is the path of a file that names the runtime policies in which lives of a process hung; "": none is
// kept.
type Hung string

// ExitHung is the status of a process that ends because of that: it is to be started again.
const ExitHung = 70

// maxHung bounds the file, in bytes: there are a dozen policies.
const maxHung = 4 << 10

// names lists them; none where there is no such file.
func (h Hung) names() ([]string, error) {
	if h == "" {
		return nil, nil
	}
	data, err := regular.Read(string(h), maxHung)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("policies that hung: %w", err)
	}
	return strings.Fields(string(data)), nil
}

// Without turns off those in which an earlier life hung. off reports whether one was on.
func (h Hung) Without(log *slog.Logger, off func(policy string) bool) error {
	names, err := h.names()
	for _, name := range names {
		if off(name) {
			log.Warn("a policy is off, as an earlier life of this process hung in it: remove the file to try it again",
				"policy", name, "file", string(h))
		}
	}
	return err
}

// End ends the process for a policy that does not come back, which the file names from now on.
func (h Hung) End(log *slog.Logger, policy string, exit func(code int)) {
	names, err := h.names()
	if err == nil && h != "" {
		err = regular.Replace(string(h), []byte(strings.Join(append(names, policy), "\n")+"\n"))
	}
	log.Error("a policy does not come back: the process ends, and starts without it", "policy", policy, "after",
		Hangs, "file", string(h), "err", err)
	exit(ExitHung)
}
