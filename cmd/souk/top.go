package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/console"
	"souk/cmd/local"
)

func topCommand(s *shared) *cobra.Command {
	return s.reach(&cobra.Command{
		Use:   "top",
		Short: "Watch the market live: agents, models, rounds and hubs",
		Long: `Shows a market while it works, in a terminal of 80 columns, over ssh, too; no colour is needed.
While it runs the hubs show what they do, at most ten times a second, and nothing of clients or prompts. It takes
creds of a viewer, or of an operator; where the keys are in --data it makes those of a viewer.

  left, right, tab, 1 to 4    another view: agents, models, rounds, hubs
  up, down, page up, page down, home
  s, r                        sort by the next column; reverse
  space                       hold the picture, and go on
  q, Ctrl-C                   end

A round's line has the premiums that it charged, the dearest slot, and what would have won one: the value that the
task which lacked least had to have, and where. souk why JOURNAL/ROUND/SLOT says more of an award.`,
		Example: `  souk top
  souk top --nats tls://10.0.0.1:4222 --creds viewer.creds`,
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			for _, f := range []*os.File{os.Stdin, os.Stdout} {
				if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
					return errors.New("it wants a terminal: souk status prints a page, and -o json is for programs")
				}
			}
			link, err := s.dial(bus.RoleViewer, local.Viewer)
			if errors.Is(err, natsauth.ErrRole) {
				link, err = s.dial(bus.RoleOperator, local.Operator)
			}
			if err != nil {
				return err
			}
			defer link.Close()
			w, err := link.Watch(c.Context())
			if err != nil {
				return err
			}
			defer w.Look()()
			screen := &top{market: bus.Redact(link.State.NATS), hubs: w.Hubs, rounds: w.Rounds,
				width:  pageWidth,
				height: 24}
			screen.look(time.Now())
			// signals are the command's own: they end its context
			_, err = tea.NewProgram(screen, tea.WithContext(c.Context()), tea.WithoutSignalHandler(),
				tea.WithFPS(10)).Run()
			if errors.Is(err, tea.ErrProgramKilled) && c.Context().Err() != nil {
				err = c.Context().Err()
			}
			return err
		},
	})
}

// redraw is how often the picture is made anew.
const redraw = 250 * time.Millisecond

// top is the picture of `souk top`, as bubbletea runs it.
type top struct {
	market string
	hubs   func() []local.Watched
	rounds func() []local.WatchedRound

	width, height int
	view          int    // of views
	sort          [4]int // by view: the column, from 1; 0: as it comes
	reverse       bool
	from          int // the first row that is shown
	held          bool

	// as they were looked at last
	at   time.Time
	all  []local.Watched
	last []local.WatchedRound
}

type looked time.Time

func again() tea.Cmd { return tea.Tick(redraw, func(now time.Time) tea.Msg { return looked(now) }) }

func (t *top) Init() tea.Cmd { return again() }

// look takes in what there is to see.
func (t *top) look(now time.Time) {
	if !t.held {
		t.at, t.all, t.last = now, t.hubs(), t.rounds()
	}
}

func (t *top) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case looked:
		t.look(time.Time(m))
		return t, again()
	case tea.WindowSizeMsg:
		t.width, t.height = m.Width, m.Height
	case tea.KeyPressMsg:
		return t, t.key(m.String())
	}
	return t, nil
}

func (t *top) key(key string) tea.Cmd {
	page := max(1, t.height-topLines)
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "right", "tab", "l":
		t.turn(t.view + 1)
	case "left", "shift+tab", "h":
		t.turn(t.view + len(views) - 1)
	case "1", "2", "3", "4":
		t.turn(int(key[0] - '1'))
	case "down", "j":
		t.from++
	case "up", "k":
		t.from--
	case "pgdown":
		t.from += page
	case "pgup":
		t.from -= page
	case "home", "g":
		t.from = 0
	case "s":
		t.sort[t.view] = (t.sort[t.view] + 1) % (1 + len(views[t.view].columns))
	case "r":
		t.reverse = !t.reverse
	case "space", " ":
		t.held = !t.held
	}
	return nil
}

// turn shows another view.
func (t *top) turn(view int) { t.view, t.from, t.reverse = view%len(views), 0, false }

func (t *top) View() tea.View {
	v := tea.NewView(t.draw())
	v.AltScreen = true
	v.WindowTitle = fmt.Sprintf("souk top %s", t.market)
	return v
}
