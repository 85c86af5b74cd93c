// Package helm judges the chart of deploy/helm: it is linted and rendered by helm, where that is installed,
// and what it makes is decoded strictly into Kubernetes' own types.
package helm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../../deploy/helm/"

// helm runs helm on the chart with values that have it make all that it can.
func helm(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	path, err := exec.LookPath("helm")
	if err != nil {
		t.Skip("helm is not installed (go install helm.sh/helm/v3/cmd/helm@latest)")
	}
	var said bytes.Buffer
	c := exec.Command(path, append(args, "--kube-version", "1.30", "--values", folder+"check.yaml")...)
	c.Stderr = &said
	text, err := c.Output()
	if err != nil {
		err = errors.New(said.String() + string(text))
	}
	return string(text), err
}

// objects renders the chart, and decodes each object strictly: a member that Kubernetes does not know is an
// error.
func objects(t *testing.T) (all []meta.Object) {
	t.Helper()
	out, err := helm(t, "template", "souk", folder+"souk")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range strings.Split(out, "\n---\n") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		var o meta.Object
		switch kind.APIVersion + " " + kind.Kind {
		case " ":
			continue
		case "v1 ConfigMap":
			o = new(core.ConfigMap)
		case "v1 Service":
			o = new(core.Service)
		case "apps/v1 StatefulSet":
			o = new(apps.StatefulSet)
		case "apps/v1 DaemonSet":
			o = new(apps.DaemonSet)
		case "policy/v1 PodDisruptionBudget":
			o = new(policy.PodDisruptionBudget)
		default:
			t.Fatalf("the chart makes a %s %s", kind.APIVersion, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
			t.Errorf("%v in\n%s", err, doc)
		}
		all = append(all, o)
	}
	return all
}

func TestChart(t *testing.T) {
	if _, err := helm(t, "lint", "--strict", folder+"souk"); err != nil {
		t.Error(err)
	}
	bin, built := os.LookupEnv("SOUK_BIN")
	services := map[string]map[string]string{} // selectors, by name
	files := map[string]*core.ConfigMap{}
	pods := map[string]core.PodSpec{}
	for _, o := range objects(t) {
		switch o := o.(type) {
		case *core.Service:
			services[o.Name] = o.Spec.Selector
		case *core.ConfigMap:
			files[o.Name] = o
		case *apps.StatefulSet:
			if services[o.Spec.ServiceName] == nil {
				t.Errorf("%s: there is no service %s", o.Name, o.Spec.ServiceName)
			}
			pods[o.Name] = o.Spec.Template.Spec
		case *apps.DaemonSet:
			pods[o.Name] = o.Spec.Template.Spec
		}
	}
	if len(pods) < 7 {
		t.Fatalf("the chart makes %d kinds of pods", len(pods))
	}
	for name, spec := range pods {
		volumes := map[string]bool{"data": true, "cache": true} // of claims
		for _, v := range spec.Volumes {
			volumes[v.Name] = true
			if v.ConfigMap != nil && files[v.ConfigMap.Name] == nil {
				t.Errorf("%s mounts %s, which is not made", name, v.ConfigMap.Name)
			}
		}
		for _, c := range spec.Containers {
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s mounts %s, which it has not", name, m.Name)
				}
			}
			if len(c.Command) != 3 || c.Name == "vllm" || !built {
				continue
			}
			// the daemon itself reads what it would be given
			dir := t.TempDir()
			file := filepath.Join(dir, filepath.Base(c.Command[2]))
			text := files[name].Data[filepath.Base(c.Command[2])]
			token := filepath.Join(dir, "token")
			text = strings.ReplaceAll(text, "/etc/souk-health/token", token)
			for path, what := range map[string]string{file: text, token: strings.Repeat("x", 64)} {
				if err := os.WriteFile(path, []byte(what), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			daemon := exec.Command(filepath.Join(bin, c.Command[0]), "--config", file, "--check-config")
			for _, e := range c.Env {
				value := strings.ReplaceAll(e.Value, "$(POD)", name+"-0")
				if e.ValueFrom == nil {
					daemon.Env = append(daemon.Env, e.Name+"="+value)
				}
			}
			daemon.Env = append(daemon.Env, "SOUK_DATA="+dir)
			if out, err := daemon.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s\n%s", name, err, out, text)
			}
		}
	}
	if !built {
		t.Log("SOUK_BIN names no commands: they did not read their files")
	}
}

// Values with a slip in them are refused, in words.
func TestValues(t *testing.T) {
	for set, says := range map[string]string{
		"gateway.tlsSecret=":          "gateway.proxies",
		"market.nats=nats://a:4222":   "/market/nats",
		"gateway.replica=3":           "gateway",
		"hubs.general.replicas=0":     "/hubs/general/replicas",
		"hubs.general.storage.size=1": "/hubs/general/storage/size",
	} {
		_, err := helm(t, "template", "souk", folder+"souk", "--set", set)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("--set %s: %v, want %q", set, err, says)
		}
	}
}
