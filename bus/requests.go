package bus

import "fmt"

// RequestLog says which requests get a line in the log of the gateway or door that they came to.
type RequestLog struct {
	Log    string  `yaml:"log"`    // all; errors: requests that were refused or broke off; off
	Sample float64 `yaml:"sample"` // with all: the share of the served requests that get one, 0 to 1
}

// Which requests get a line.
const (
	LogAll    = "all"
	LogErrors = "errors"
	LogOff    = "off"
)

// DefaultRequestLog logs every request.
func DefaultRequestLog() RequestLog { return RequestLog{Log: LogAll, Sample: 1} }

// Validate judges l.
func (l RequestLog) Validate() error {
	switch {
	case l.Log != LogAll && l.Log != LogErrors && l.Log != LogOff:
		return fmt.Errorf("requests.log: %.40q: write all, errors or off", l.Log)
	case !(l.Sample >= 0 && l.Sample <= 1):
		return fmt.Errorf("requests.sample: %v is not within 0 and 1", l.Sample)
	}
	return nil
}
