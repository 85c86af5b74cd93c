package page

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// What gonum writes of a picture, and what a page needs of it: its classes, and the font of its text.
var styles = strings.NewReplacer(
	"font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;", "",
	"font-family:Liberation Serif;font-variant:normal;font-weight:normal;font-style:normal;", "",
	` transform="scale(1, -1)" style="font-size:10px;fill:#010203"`, ` class="s"`,
	` transform="scale(1, -1)" style="font-size:12px;fill:#010203"`, ` class="t"`,
	`style="fill:none;stroke:#898989;stroke-opacity:0.23529;stroke-width:0.4"`, `class="g"`,
	`style="fill:none;stroke:#010203;stroke-width:0.5"`, `class="a"`,
	"#010203", "currentColor", "\n\t", " ", ` xmlns:xlink="http://www.w3.org/1999/xlink"`, "")

var (
	onePath = regexp.MustCompile(`^<path d="([^"]*)" (.*?) ?/>$`)
	places  = regexp.MustCompile(`( [xy]|^<path d)="[^"]*"`)
	decimal = regexp.MustCompile(`\d+\.\d+`)
)

// compact is an SVG element of a third of the bytes, that looks the same: places to a tenth of a point, and
// lines of one style that follow one another as one path.
func compact(svg string) (string, error) {
	_, body, ok := strings.Cut(styles.Replace(svg), "<svg")
	if !ok {
		return "", fmt.Errorf("no picture came out")
	}
	var out []string
	style := "" // of the last line, a path
	for line := range strings.SplitSeq("<svg "+strings.TrimSpace(body), "\n") {
		line = places.ReplaceAllStringFunc(line, func(place string) string {
			return decimal.ReplaceAllStringFunc(place, tenths)
		})
		p := onePath.FindStringSubmatch(line)
		switch {
		case p == nil:
			style = ""
			out = append(out, line)
			continue
		case p[2] == style:
			last := &out[len(out)-1]
			*last = strings.Replace(*last, `" `+style, p[1]+`" `+style, 1)
		default:
			out = append(out, `<path d="`+p[1]+`" `+p[2]+"/>")
		}
		style = p[2]
	}
	return strings.Join(out, "\n"), nil
}

func tenths(number string) string {
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return number
	}
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}
