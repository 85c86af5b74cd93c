package vllm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"souk/agentd"
)

const maxPage = 8 << 20 // a /metrics page is 64 KB; eight engines and LoRA labels make it larger

// ask makes one small request and reads the whole answer. A body is JSON; nil: it asks by GET.
func (e *Engine) ask(ctx context.Context, path string, body []byte) (status int, said []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Probe)
	defer cancel()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, e.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header["Idempotency-Key"] = nil // see send
	}
	e.authorize(req.Header)
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	said, err = io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if resp.StatusCode != http.StatusOK {
		said = e.unkeyed(said)
	}
	return resp.StatusCode, said, err
}

func (e *Engine) get(ctx context.Context, path string) ([]byte, error) {
	status, body, err := e.ask(ctx, path, nil)
	if err == nil && status != http.StatusOK {
		err = answered(status, body)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return body, nil
}

// lacking is a status that says that there is no such path.
type lacking int

func (l lacking) Error() string { return fmt.Sprintf("the engine answered %d", int(l)) }

func answered(status int, said []byte) error {
	if missing(status) {
		return fmt.Errorf("%w: %s", lacking(status), complaint(said))
	}
	err := fmt.Errorf("the engine answered %d: %s", status, complaint(said))
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		err = fmt.Errorf("%w: it wants a key, or another one: engine.api_key, or VLLM_API_KEY for souk up --vllm",
			err)
	}
	return err
}

// Load implements agentd.Engine: counters of /metrics, after /health said 200, as far as the server has them.
// With several engines behind one server (data parallel) they are their sums.
func (e *Engine) Load(ctx context.Context) (agentd.Load, error) {
	load, err := e.load(ctx)
	if gone := lacking(0); errors.As(err, &gone) { // what is asked for it had
		err = fmt.Errorf("%w: %w", agentd.ErrAnother, err)
	}
	return load, err
}

func (e *Engine) load(ctx context.Context) (agentd.Load, error) {
	if s := e.server.Load(); s.health && !s.idle {
		if _, err := e.get(ctx, "/health"); err != nil {
			return agentd.Load{}, err
		}
	}
	n, page, err := e.alive(ctx)
	var names []string
	if err == nil {
		names, err = e.same(ctx, page)
	}
	if err != nil {
		return agentd.Load{}, err
	}
	return agentd.Load{Generated: n, Models: names}, nil
}

// total is the sum of the samples of one name; false where there are none, or where it is no amount.
func total(page []byte, name string) (sum float64, there bool) {
	all := samples(page, name)
	for _, m := range all {
		sum += m.GetUntyped().GetValue()
	}
	if len(all) == 0 || !(sum >= 0 && sum <= 1<<53) {
		return 0, false
	}
	return sum, true
}

// samples returns the samples of one name on a page in Prometheus' text format. It skips lines that cannot be
// read.
func samples(page []byte, name string) (all []*dto.Metric) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	for line := range bytes.Lines(page) {
		if bytes.HasPrefix(line, []byte(name)) {
			text := strings.NewReader(string(bytes.TrimSpace(line)) + "\n")
			if families, err := parser.TextToMetricFamilies(text); err == nil {
				all = append(all, families[name].GetMetric()...)
			}
		}
	}
	return all
}

// Info implements agentd.Engine. It fails while the server boots (connection refused) and when it is not
// healthy.
func (e *Engine) Info(ctx context.Context) (agentd.Info, error) {
	var info agentd.Info
	status, said, err := e.ask(ctx, "/health", nil)
	if err == nil && status != http.StatusOK && !missing(status) {
		err = answered(status, said)
	}
	if err != nil {
		return info, fmt.Errorf("/health: %w", err)
	}
	listed, err := e.models(ctx)
	if err != nil {
		return info, err
	}
	kind := e.cfg.Kind
	if kind == "" {
		_, err := e.get(ctx, "/version")
		if kind, err = listed.kind(err == nil); err != nil {
			return info, err
		}
	}
	s, about, page := e.describe(ctx, kind, status == http.StatusOK)
	info.Kind, info.Version, info.Shared = kind, cmp.Or(about.Version, about.Build), !s.vllm()
	for _, m := range listed.Data {
		if !slices.Contains(info.Models, m.ID) { // some list a name twice
			info.Models = append(info.Models, m.ID)
		}
		if m.Parent != "" {
			info.Adapters = append(info.Adapters, m.ID)
		}
		info.MaxModelLen = max(info.MaxModelLen, m.MaxModelLen, m.Meta.Context)
	}
	if info.MaxModelLen == 0 {
		info.MaxModelLen = max(about.Most, about.Default.Context)
	}
	if a := e.cfg.Adapter; a.Path != "" && !slices.Contains(info.Models, a.Name) {
		if err := e.adapt(ctx, a); err != nil {
			return info, err
		}
		info.Models, info.Adapters = append(info.Models, a.Name), append(info.Adapters, a.Name)
	}
	if info.Pools, err = e.pools(ctx, info.Models[0]); err != nil && s.vllm() { // others load a model first
		return info, err
	}
	if info.Lacks = s.lacks(&info); s.vllm() {
		if saltless(info.Version) {
			return info, fmt.Errorf("the engine is vLLM %s, which does not keep what clients send apart by "+
				"cache_salt, so that they could learn of each other's prompts: run 0.10.1 or later", info.Version)
		}
		info.BlockSize, info.KVTokens = cacheConfig(page)
		if info.Pools == "" { // else it has no chats
			info.Parsers = e.parses(ctx)
			info.Template = e.template(ctx)
			info.Forgets = info.Template != nil && e.forgets(ctx)
		}
	}
	e.server.Store(s)
	e.pace.starts()
	return info, nil
}

// saltless reports whether a vLLM is known to leave cache_salt unread: in completions, by which answers go on
// and caches are touched, it is read since 0.10.1. One between two releases names the later of them
// (0.9.2.dev7); one that was built without tags names none, by two numbers (0.1.dev1).
func saltless(version string) bool {
	var major, minor, patch int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	return n == 3 && major == 0 && (minor < 10 || minor == 10 && patch < 1)
}

// adapt has the server load an adapter, which it then serves under its name until it ends.
func (e *Engine) adapt(ctx context.Context, a agentd.Adapter) error {
	body, err := json.Marshal(map[string]string{"lora_name": a.Name, "lora_path": a.Path})
	if err != nil {
		return err
	}
	const path = "/v1/load_lora_adapter"
	status, said, err := e.ask(ctx, path, body)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s: the engine finds no adapter at %.200q, or loads none (then start it with "+
			"--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, or name %q under --lora-modules): %s",
			path, a.Path, a.Name, complaint(said))
	case status != http.StatusOK:
		return fmt.Errorf("%s: the engine answered %d: %s", path, status, complaint(said))
	}
	return nil
}

// parses reports whether clients may use the server's own parsers of tool calls and reasoning. It sends an
// empty question. A server that offers them answers 400 or 422. One without --enable-scale-out answers 403,
// and an older one 404.
func (e *Engine) parses(ctx context.Context) bool {
	status, _, err := e.ask(ctx, derenderPath, []byte("{}"))
	return err == nil && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity)
}

// cacheConfig reads vllm:cache_config_info. One block of num_gpu_blocks is reserved by vLLM.
func cacheConfig(page []byte) (blockSize, tokens int) {
	for _, m := range samples(page, "vllm:cache_config_info") {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		size, err := strconv.Atoi(strings.TrimSpace(labels["block_size"]))
		if err != nil || size <= 0 || size > 1<<20 {
			continue
		}
		blockSize = size
		if blocks, err := strconv.Atoi(labels["num_gpu_blocks"]); err == nil && blocks > 1 && blocks < 1<<40 {
			tokens += (blocks - 1) * size
		}
	}
	return blockSize, tokens
}
