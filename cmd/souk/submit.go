package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"souk/bus"
	"souk/bus/natsbus"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/market"
)

// question is a task of `souk submit`, with its terms.
type question struct {
	client, model, system, session string
	terms                          bus.Terms
	maxTokens                      int
	taskID                         string
	asJSON                         bool
}

func submitCommand(s *shared) *cobra.Command {
	var q question
	c := &cobra.Command{
		Use:   "submit [PROMPT]",
		Short: "Ask a running market, stream the answer, and say what it cost",
		Long: `Asks a running market, streams the answer to stdout, and says on stderr what was paid, to
whom, and by which receipt. souk why RECEIPT shows later why it went there, and at that price. Without PROMPT
it is read from stdin. Ctrl-C cancels: what was served until then is paid, and the payment is printed. Where
nobody says within 5 s what was paid, it names the command that tells. A second Ctrl-C ends it at once. An
answer that cannot be written any more, as one to "| head", is cancelled, too.`,
		Example: `  souk submit "What is a souk?"
  souk submit --worth 0.01 --patience 500ms "Quickly: 17 * 23?"
  echo "Summarise this" | souk submit --model gpt-oss-120b --json`,
		Args: onePrompt,
		RunE: func(c *cobra.Command, args []string) error {
			task, err := q.read(c, args)
			if err != nil {
				return err
			}
			return submit(c, s, q, task)
		},
	}
	f := c.Flags()
	q.flags(f)
	f.StringVar(&q.taskID, "task", "",
		"id of the question: asked again under the same one, it is served and paid once (default: a new one)")
	f.BoolVar(&q.asJSON, "json", false, "print one JSON object with the answer and all that is known of it")
	return c
}

// flags defines the flags by which a question is asked, or quoted.
func (q *question) flags(f *pflag.FlagSet) {
	f.StringVar(&q.client, "client", "dev", "who asks and pays")
	f.StringVar(&q.model, "model", "", "ask for this model alone")
	f.StringVar(&q.system, "system", "", "system prompt")
	f.StringVar(&q.session, "session", "", "name of a conversation whose turns should meet a warm cache")
	termsFlags(f, &q.terms, "")
	given(f, &q.terms.MaxPrice, market.ParseCredits, "max-price",
		"most `credits` that are ever paid (default: the worth)")
	f.IntVar(&q.maxTokens, "max-tokens", 0, "longest answer; 0 leaves it to the market")
}

// termsFlags adds the flags of terms. A term whose flag is not given stays nil. when says when they count.
func termsFlags(f *pflag.FlagSet, t *bus.Terms, when string) {
	given(f, &t.Worth, market.ParseCredits, "worth", "`credits` that a perfect answer at once would be worth"+when)
	given(f, &t.Delta, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, "delta",
		"`weight` of quality against latency, above 0 and at most 1"+when)
	given(f, &t.PatienceMS, func(s string) (int64, error) {
		d, err := time.ParseDuration(s)
		return d.Milliseconds(), err
	}, "patience", "`time` to the first token in which latency takes its part of the worth once"+when)
}

// given adds a flag that sets *to only where it is given.
func given[T any](f *pflag.FlagSet, to **T, read func(string) (T, error), name, usage string) {
	f.Func(name, usage, func(s string) error {
		v, err := read(s)
		*to = &v
		return err
	})
}

func onePrompt(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%d words where one prompt is expected: put it in quotes, as in souk "+
			"%s \"What is a souk?\"", len(args), c.Name())
	}
	return nil
}

// read makes the request of what the command was given.
func (q *question) read(c *cobra.Command, args []string) (t bus.Task, err error) {
	prompt, err := readPrompt(args, c.InOrStdin())
	if err != nil {
		return t, err
	}
	return q.task(prompt)
}

// maxStdin is a little more than the longest prompt that the market takes.
const maxStdin = bus.MaxCanonical + 1

func readPrompt(args []string, in io.Reader) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			fmt.Fprintln(os.Stderr, "prompt, ended by Ctrl-D:")
		}
	}
	b, err := io.ReadAll(io.LimitReader(in, maxStdin))
	return strings.TrimSpace(string(b)), err
}

// task builds the request; the door judges it.
func (q question) task(prompt string) (bus.Task, error) {
	t := bus.Task{Client: q.client, Kind: bus.KindChat, Stream: true, Session: q.session, Model: q.model,
		MaxTokens: q.maxTokens, ID: q.taskID, Terms: q.terms}
	if err := bus.CheckID("--client", q.client); err != nil {
		return t, err
	}
	if q.taskID == "" {
		t.ID = rand.Text() // ours, so that whatever becomes of it can be named
	} else if err := bus.CheckID("--task", q.taskID); err != nil {
		return t, err
	}
	if !utf8.ValidString(prompt) || !utf8.ValidString(q.system) {
		return t, errors.New("the prompt is not UTF-8: convert it first, as by iconv -t UTF-8")
	}
	body := replay.Chat{Model: q.model, MaxTokens: q.maxTokens, Stream: true}
	if q.system != "" {
		body.Messages = append(body.Messages, replay.Message{Role: "system", Content: q.system})
	}
	body.Messages = append(body.Messages, replay.Message{Role: "user", Content: prompt})
	var err error
	t.Body, err = json.Marshal(body)
	return t, err
}

// asClient is a link as a client: the one that --client names, or whose creds are given.
func asClient(c *cobra.Command, s *shared, client string) (*local.Link, error) {
	if !c.Flags().Changed("client") && len(s.creds) > 0 {
		client = ""
	}
	return s.dial(bus.RoleClient, client)
}

func submit(c *cobra.Command, s *shared, q question, t bus.Task) error {
	if err := s.mustBeKnown(c.Context(), t.Client, "nothing was asked or paid"); err != nil {
		return err
	}
	link, err := asClient(c, s, t.Client)
	if err != nil {
		return err
	}
	defer link.Close()
	t.Client = link.Name
	ctx, stop := context.WithCancelCause(c.Context())
	defer stop(nil)
	out := reader{c.OutOrStdout(), stop}
	broken := make(chan os.Signal, 1) // else who reads stdout ends us by going, and the task runs on
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	go reach(link.Bus.Health(), c.ErrOrStderr())
	ended := cancelling(ctx, c.ErrOrStderr())
	a, err := link.AskWith(ctx, t, func(chunk bus.Chunk) {
		if !q.asJSON {
			io.WriteString(out, chunk.Text)
		}
	})
	ended()
	if err != nil {
		return err
	}
	r := a.Result
	if q.asJSON {
		r.Text = a.Text
		err = writeJSON(out, struct {
			bus.Result
			Paid market.Credits `json:"paid"`
			TTFT float64        `json:"client_ttft_ms"`
		}{r, r.Paid(), float64(a.TTFT.Microseconds()) / 1000})
	} else if a.Text != "" && !strings.HasSuffix(a.Text, "\n") {
		fmt.Fprintln(out)
	}
	if !q.asJSON || err != nil {
		fmt.Fprintln(c.ErrOrStderr(), summary(r, a.TTFT))
	}
	if c.Context().Err() == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("not all of the answer could be written: %w", err)
	}
	return exit(r.Code, c.Context().Err() != nil)
}

// reader writes an answer to w. Once w takes no more nobody needs the rest: gone is told why.
type reader struct {
	io.Writer
	gone func(why error)
}

func (r reader) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	if err != nil {
		r.gone(err)
	}
	return n, err
}

// exit returns the command's exit for an answer's code.
func exit(code bus.Code, interrupted bool) error {
	switch {
	case code == "": // all of it came
		return nil
	case interrupted:
		return console.Exit(130) // as a shell says it of a program that Ctrl-C ended
	}
	return console.Exit(1)
}

// saysWhy is how long after Ctrl-C an answer goes on before the command says what it waits for.
const saysWhy = 500 * time.Millisecond

// cancelling says what is waited for after ctx has ended, unless that comes at once. The function returned
// ends it.
func cancelling(ctx context.Context, to io.Writer) (end func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-over:
			return
		}
		select {
		case <-time.After(saysWhy):
			fmt.Fprintf(to, "cancelled; what was paid is waited for, at most %v (Ctrl-C again ends this at "+
				"once)\n", local.CancelWithin)
		case <-over:
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// reach says when the market is out of reach and when it is back, until news ends.
func reach(news <-chan bus.Health, to io.Writer) {
	away := false
	for h := range news {
		switch {
		case !h.Connected && errors.Is(h.Err, natsbus.ErrRefused) && !away:
			fmt.Fprintf(to, "%v; an answer that has begun is waited for, for a minute (Ctrl-C gives it up)\n",
				h.Err)
			away = true
		case !h.Connected && h.Err != nil && !away:
			fmt.Fprintln(to, "the market is out of reach; an answer that has begun is waited for, for a "+
				"minute (Ctrl-C gives it up)")
			away = true
		case h.Connected && away:
			fmt.Fprintln(to, "the market is back")
			away = false
		}
	}
}

// summary is the one line that ends an answer.
func summary(r bus.Result, ttft time.Duration) string {
	if r.Code != "" && r.Receipt == nil {
		line := fmt.Sprintf("%s: %s", r.Code, r.Message)
		if r.Code != bus.CodeCancelled && r.Code != bus.CodeUnknown {
			line = "refused: " + line
		}
		if r.RetryMS > 0 {
			line += fmt.Sprintf(" (worth another try in %d ms)", r.RetryMS)
		}
		switch r.Code {
		case bus.CodeUnknownClient:
			return fmt.Sprintf("%s: souk fund %s AMOUNT; nothing was paid", line, r.Client)
		case bus.CodeUnknown, bus.CodeAnswerGone, bus.CodeDuplicate: // it may have been, before or elsewhere
			return line + "; what was paid, if anything, stands in the ledger: ledger trace " + r.Task
		}
		return line + "; nothing was paid"
	}
	line := fmt.Sprintf("paid %s = cost %s + premium %s%s | TTFT %.1f ms | %d prompt tokens, %d from "+
		"cache, %d output | %s by %s of %s",
		r.Paid(), r.Cost, r.Premium, premiumParts(r), float64(ttft.Microseconds())/1000, r.Usage.Prompt,
		r.Usage.Cached, r.Usage.Output, r.Model, r.Agent, r.Hub)
	if r.Receipt != nil {
		line += " | receipt " + r.Receipt.ID
	}
	if r.Code != "" {
		line = fmt.Sprintf("%s: %s; %s", r.Code, r.Message, line)
	}
	return line
}

// premiumParts says what a premium was quoted of. Slot price and tolls together are another sum where the
// client's tasks were priced together, and where the answer cost more or less than was quoted.
func premiumParts(r bus.Result) string {
	if r.Premium == 0 {
		return ""
	}
	own := ""
	if r.Own > 0 {
		own = fmt.Sprintf(", of which %s are not charged", r.Own)
	}
	return fmt.Sprintf(" (slot price %s, toll %s%s, fee %s)", r.SlotPrice, -r.Toll-r.Fee, own, r.Fee)
}
