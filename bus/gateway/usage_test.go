package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
)

// A tag's text cannot make two groups of usage one: what one user of a key spent is nobody else's.
func TestUsageIsToldApartWhateverTagsSay(t *testing.T) {
	uses := []tip.Use{{Day: 1, Key: "k", Tags: bus.Tags([]bus.Tag{{Name: "a", Value: "eve"},
		{Name: "b", Value: "2"}}, ""), Tasks: 1},
		{Day: 1, Key: "k", Tags: bus.Tags([]bus.Tag{{Name: "a", Value: "eve\x01b\x002"}}, ""), Tasks: 1},
		{Day: 1, Key: "k", Tags: bus.Tags([]bus.Tag{{Name: "a\x00eve\x01b", Value: "2"}}, ""), Tasks: 1},
		{Day: 1, Key: "k", Tags: tip.Rest, Tasks: 1},
		{Day: 1, Key: "k", Tags: bus.Tags([]bus.Tag{{Name: "\xff"}}, ""), Tasks: 1}}
	u := usageOf(&bus.APIKey{ID: "k"}, 1, grouping{tags: true}, []bus.HubFunds{{AtMS: 1, Uses: uses}})
	if len(u.Data) != len(uses) || u.Total.Tasks != int64(len(uses)) {
		t.Errorf("%d groups of %d, %d tasks", len(u.Data), len(uses), u.Total.Tasks)
	}
}

// A hub that tells of another key's tasks too, or of earlier days, adds nothing to what a key is shown.
func TestUsageIsOfTheKeyThatAsks(t *testing.T) {
	u := usageOf(&bus.APIKey{ID: "k"}, 5, grouping{day: true}, []bus.HubFunds{{AtMS: 1, Uses: []tip.Use{
		{Day: 5, Key: "k", Tasks: 1}, {Day: 5, Key: "other", Tasks: 2}, {Day: 4, Key: "k", Tasks: 4}}}})
	if u.Total.Tasks != 1 || len(u.Data) != 1 {
		t.Errorf("%d tasks in %d groups", u.Total.Tasks, len(u.Data))
	}
}

// Whoever names very many tags is not to have each of very many sums compared with all of them.
func TestUsageByVeryManyTags(t *testing.T) {
	for n, want := range map[int]bool{1: true, bus.MaxTag: true, bus.MaxTag + 1: false, 5000: false} {
		by := strings.Repeat("tag:x,", n-1) + "tag:y"
		_, _, err := usageAsked(httptest.NewRequest("GET", "/v1/usage?by="+by, nil), time.Unix(1e9, 0))
		if (err == nil) != want {
			t.Errorf("%d tags: %v", n, err)
		}
	}
}
