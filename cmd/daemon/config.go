package daemon

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"souk/bus/regular"
)

// owners says whose file a section at the top belongs to, and the command that takes it; the cluster's comes
// first, for it has those of others too.
var owners = []struct{ section, command string }{
	{"engines", "souk cluster --config"}, {"agentd", "agentd --config"}, {"hub", "hub --config"},
	{"classifier", "classifier --config"}, {"treasury", "treasury --config"},
	{"gateway", "gateway --config"},
	{"infra", "souk infra --config"}, {"domains", "souk up --config"},
}

// MaxFile bounds a configuration file, in bytes: a thousand agents need a fifth of it.
const MaxFile = 1 << 20

// load reads a file over the defaults in cfg, applies the environment, and judges the whole. No error shows a
// secret.
func load(section, path string, environ []string, cfg Config) error {
	var data []byte
	if path != "" {
		var err error
		if data, err = regular.ReadGiven(path, MaxFile); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
	}
	return discreet(decode(section, path, data, environ, cfg))
}

// Load reads a strict YAML file into cfg, a pointer to a struct, without an environment. It is for files that
// are no daemon's.
func Load(section, path string, cfg any) error {
	data, err := regular.ReadGiven(path, MaxFile)
	if err != nil {
		return err
	}
	return Parse(section, path, data, cfg)
}

// Parse reads what stands in a file as Load does.
func Parse(section, path string, data []byte, cfg any) error {
	_, err := read(section, path, data, cfg)
	return discreet(err)
}

// read parses a file strictly.
func read(section, path string, data []byte, cfg any) (ast.Node, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are read", path, len(data), MaxFile)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, true))
	}
	if len(file.Docs) > 1 {
		return nil, fmt.Errorf("%s: %d documents: one file describes one daemon", path, len(file.Docs))
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	body := file.Docs[0].Body
	if err := foreign(section, path, body); err != nil {
		return nil, err
	}
	if complaints := unfit(path, body, reflect.TypeOf(cfg).Elem(), reflect.TypeOf(cfg).Elem(), "",
		1); complaints != nil {
		return nil, errors.Join(complaints...)
	}
	if err := yaml.UnmarshalWithOptions(data, cfg, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, true))
	}
	return body, nil
}

func decode(section, path string, data []byte, environ []string, cfg Config) error {
	body, err := read(section, path, data, cfg)
	if err != nil {
		return err
	}
	from, err := override(section, environ, cfg)
	if err != nil {
		return err
	}
	err = cfg.Complete()
	if err == nil {
		err = cfg.Sections().complete(cfg.Drain())
	} else {
		err = errors.Join(err, cfg.Sections().complete(0))
	}
	return place(section, path, body, from, err)
}

// foreign refuses a file that was written for another command, and names that.
func foreign(section, path string, body ast.Node) error {
	top := map[string]int{}
	for _, e := range entries(body) {
		top[e.key] = e.line
	}
	_, ours := top[section]
	_, cluster := top[owners[0].section] // whose file names other files under their sections
	if ours && (!cluster || section == owners[0].section) {
		return nil
	}
	for _, o := range owners {
		if line, there := top[o.section]; there && o.section != section {
			return fmt.Errorf("%s:%d: section %q: this file is for another command: run `%s %s`, or write "+
				"a section %q", path, line, o.section, o.command, path, section)
		}
	}
	return nil
}

// entry is one key of a mapping.
type entry struct {
	key   string
	value ast.Node
	line  int
}

// entries lists what a mapping holds; nothing if the node is none.
func entries(n ast.Node) (out []entry) {
	var values []*ast.MappingValueNode
	switch n := plain(n).(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	}
	for _, v := range values {
		if t := v.Key.GetToken(); t.Value != "<<" {
			out = append(out, entry{t.Value, v.Value, t.Position.Line})
		}
	}
	return out
}

// plain takes anchors and tags off a node.
func plain(n ast.Node) ast.Node {
	for {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.TagNode:
			n = x.Value
		default:
			return n
		}
	}
}

// InData says of an error about a daemon's data directory what names that. Nil stays nil.
func InData(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (the directory is data in the file, or SOUK_DATA)", err)
}
