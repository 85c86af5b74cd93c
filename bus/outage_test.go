package bus

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestOutage(t *testing.T) {
	var o Outage
	begin := time.Unix(1_800_000_000, 0)
	var said []string
	for _, e := range strings.Fields("0:a+ 1:a- 2:b- 60:a- 61:b- 62:a+ 63:a- 64:a+ 121:b- 122:b+ 123:b+ " +
		"124:a- 125:a+ 126:a- 180:a- 181:a- 182:a+") {
		var second int
		var part, what string
		if _, err := fmt.Sscanf(e, "%d:%1s%1s", &second, &part, &what); err != nil {
			t.Fatal(err)
		}
		now := begin.Add(time.Duration(second) * time.Second)
		if what == "-" {
			if o.Failed(now, part) {
				said = append(said, fmt.Sprint(second, " begins or lasts"))
			}
		} else if lasted, over := o.Works(now, part); over {
			said = append(said, fmt.Sprint(second, " over after ", lasted))
		}
	}
	want := "1 begins or lasts, 61 begins or lasts, 121 begins or lasts, 122 over after 2m1s, " +
		"181 begins or lasts, 182 over after 56s"
	if got := strings.Join(said, ", "); got != want {
		t.Errorf("said %s\nwant %s", got, want)
	}
}
