package train

import (
	"encoding/binary"
	"fmt"
	"math"

	"souk/classifier/model"
)

// Encode writes the weights file that [model.Decode] reads, each weight in a byte: a step is a 127th of the
// label's largest weight.
func (w *Weights) Encode(labels []string, temperature float64) ([]byte, error) {
	if len(labels) < 2 || len(labels) > model.MaxLabels {
		return nil, fmt.Errorf("train: %d labels, want 2 to %d", len(labels), model.MaxLabels)
	}
	b := append([]byte(model.Magic), byte(len(labels)))
	for _, l := range labels {
		b = append(append(b, byte(len(l))), l...)
	}
	float := func(v float32) { b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v)) }
	float(float32(temperature))
	for l := range labels {
		float(w.Bias[l])
	}
	var step row
	for l := range labels {
		top := float32(1e-6)
		for f := range w.Rows {
			top = max(top, w.Rows[f][l], -w.Rows[f][l])
		}
		step[l] = top / 127
		float(step[l])
	}
	for f := range w.Rows {
		for l := range labels {
			q := math.RoundToEven(float64(w.Rows[f][l]) / float64(step[l]))
			b = append(b, byte(128+int(q)))
		}
	}
	return b, nil
}
