package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// section returns the commands in a manual below a heading, up to the next one: blocks of code, as they are.
func section(t *testing.T, file, heading string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../deploy", file))
	must(t, err)
	_, rest, found := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, heading)
	}
	if next := regexp.MustCompile(`(?m)^#+ `).FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	for _, p := range strings.Split(rest, "\n\n") {
		lines := strings.Split(strings.Trim(p, "\n"), "\n")
		if slices.ContainsFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "    ") }) {
			continue
		}
		if strings.HasPrefix(lines[0], "    --") { // flags
			continue
		}
		blocks = append(blocks, strings.Join(lines, "\n"))
	}
	if len(blocks) == 0 {
		t.Fatalf("%s: section %q has no command", file, heading)
	}
	return blocks
}

// inBackground makes a script of a block that a person plays in several terminals: a daemon goes on beside
// what follows, which waits until it is ready, or stands by.
func inBackground(block string) string {
	daemon := regexp.MustCompile(`^\s*(?:\w+=\S+\s+)*bin/(hub|treasury|classifier|gateway|agentd|souk infra|` +
		`souk engine) [^&>]*$`)
	var out []string
	for _, l := range strings.Split(strings.ReplaceAll(block, "\\\n", " "), "\n") {
		l, _, _ = strings.Cut(l, " #")
		l = strings.TrimSpace(l)
		switch name := daemon.FindStringSubmatch(l); {
		case strings.HasPrefix(l, "make "):
		case strings.HasPrefix(l, "kill $(pgrep -f '"):
			find := strings.TrimSuffix(strings.TrimPrefix(l, "kill $("), ")")
			out = append(out, l, "while "+find+" >/dev/null; do sleep 0.1; done")
		case name == nil, strings.Contains(l, " --check-config"), strings.Contains(l, " --probe"):
			out = append(out, l)
		default:
			log := strings.ReplaceAll(name[1], " ", "-") + ".log"
			out = append(out, ": > "+log, l+" >> "+log+" 2>&1 &")
			if !strings.Contains(l, "engine") {
				out = append(out, fmt.Sprintf("until %s --probe 2>/dev/null || grep -q 'standing by' %s; do "+
					"sleep 0.1; done", l, log))
			}
		}
	}
	return strings.Join(out, "\n")
}

// playManual runs a script in a directory that has bin and deploy, on a network and among processes of its
// own: so all ports are as the manuals have them, and what they end is what they began.
func playManual(t *testing.T, script string) {
	t.Helper()
	for _, tool := range []string{"unshare", "ip", "bash", "curl", "jq", "pgrep"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	alone := []string{"--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc"}
	try := exec.Command("unshare", append(alone, "ip", "link", "set", "lo", "up")...)
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("no network of its own: %v: %s", err, out)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	must(t, os.Mkdir(bin, 0o700))
	built, err := filepath.Glob(filepath.Join(commands(t), "*"))
	must(t, err)
	for _, command := range built {
		must(t, os.Symlink(command, filepath.Join(bin, filepath.Base(command))))
	}
	lab := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(bin, "lab"), ".")
	lab.Dir, lab.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := lab.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	deploy, err := filepath.Abs("../../../deploy")
	must(t, err)
	must(t, os.Symlink(deploy, filepath.Join(dir, "deploy")))
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	file := filepath.Join(dir, "script") // and not bash -c, in which pgrep -f would find the commands
	must(t, os.WriteFile(file, []byte("ip link set lo up\nset -e\n"+script), 0o600))
	c := exec.CommandContext(ctx, "unshare", append(alone, "bash", file)...)
	c.Dir = dir
	c.WaitDelay = time.Second // what still runs holds its logs
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, l := range logs {
			text, _ := os.ReadFile(l)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			t.Logf("%s:\n  %s", filepath.Base(l), strings.Join(lines[max(0, len(lines)-8):], "\n  "))
		}
		t.Fatal(err)
	}
}

// serves is a function of scripts: a task is served within half a minute.
const serves = `serves() { for i in $(seq 60); do
  bin/souk submit "What is a souk?" --max-tokens 10 --nats nats://127.0.0.1:4222 && return; sleep 0.5; done
  return 1; }
`

// etcdTools returns a folder with etcdctl and etcdutl, which are fetched and compiled; "" where they cannot
// be had.
func etcdTools(t *testing.T) string {
	t.Helper()
	if found, err := exec.LookPath("etcdctl"); err == nil {
		return filepath.Dir(found)
	}
	dir := t.TempDir()
	script := `v=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3) && cd $0 && go mod init tools &&
		go get go.etcd.io/etcd/etcdctl/v3@$v go.etcd.io/etcd/etcdutl/v3@$v &&
		go build -o . go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdutl/v3`
	c := exec.Command("sh", "-c", script, dir)
	c.Dir, c.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Logf("etcdctl cannot be had, and what needs it is not played: %v\n%s", err, out)
		return ""
	}
	return dir
}

// An operator installs a market by deploy/README.md, and does what the runbook says, section after section,
// as both are written; after each the market serves.
func TestTheRunbookAsWritten(t *testing.T) {
	whole(t)
	etcdctl := etcdTools(t)
	script := serves + "export PATH=$PATH:" + etcdctl + "\n"
	play := func(file, heading string, change ...string) {
		script += fmt.Sprintf("echo \"== %s: %s\"\n", file, heading)
		for _, b := range section(t, file, heading) {
			if strings.Contains(b, "etcdctl") && etcdctl == "" {
				continue
			}
			script += inBackground(strings.NewReplacer(change...).Replace(b)) + "\n"
		}
		script += "serves\n"
	}
	play("README.md", "# Running a market")
	play("runbook.md", "## Is it well?", "--duration 20s", "--duration 3s")
	play("runbook.md", "## Backup and restore", "NEWEST/general", "general.lost")
	if etcdctl != "" {
		play("runbook.md", "### etcd")
		// this etcd may have done so by itself just now: either will do
		play("runbook.md", "## A full etcd", "etcdctl compact", "! etcdctl compact")
	}
	// creds of a node end, and are renewed with the rest
	script += inBackground(`
kill $(pgrep -f 'bin/agentd --config deploy/local/agentd-3.yaml')
bin/souk auth renew agentd-node-3 --valid 5s
bin/agentd --config deploy/local/agentd-3.yaml`) + `
until curl -s 127.0.0.1:9407/readyz | grep -q 'the NATS server refuses it'; do sleep 0.2; done
`
	script += "ID=$(bin/souk key list --etcd 127.0.0.1:2379 | awk '$2 == \"dev\" {print $1}')\n"
	play("runbook.md", "## Keys", "rotate ID", "rotate $ID", "revoke ID", "revoke $ID")
	play("runbook.md", "## A new version")
	play("runbook.md", "## A full disk")
	play("runbook.md", "## The ledger finds something", "--elsewhere math", "", "; echo $?", "",
		"bin/ledger check --policy POLICY --against mine.tlog-proof", "true",
		"bin/ledger diff souk-data backup", "bin/ledger diff souk-data backup || [ $? -eq 1 ] # they differ")
	play("runbook.md", "## A node more")
	play("runbook.md", "## A node less")
	play("runbook.md", "## A hub that is lost")
	script += `kill -9 $(pgrep -o -f 'bin/hub --config deploy/local/hub-general.yaml')
mv souk-data/journal/general general.burnt
serves
while bin/souk writeoff general --nats nats://127.0.0.1:4222 | grep "refused now"; do sleep 1; done
`
	play("runbook.md", "### A hub's journal is lost")
	script += `for p in gateway classifier agentd hub treasury; do pkill -x $p; done
while pgrep -x 'gateway|classifier|agentd|hub|treasury' >/dev/null; do sleep 0.1; done
`
	lost := []string{"lost/general", "standby/journal/general-b"}
	for _, b := range section(t, "runbook.md", "### The treasury's journal is lost") {
		script += inBackground(strings.NewReplacer(lost...).Replace(b)) + "\n"
	}
	script += inBackground(`bin/classifier --config deploy/local/classifier.yaml
bin/agentd --config node-4.yaml
bin/souk fund dev 10 --nats nats://127.0.0.1:4222`) + "\nserves\n"
	playManual(t, script)
}

// Whoever follows the manual of three machines has a first answer of both gateways, and a page that says that
// all is well; and so again after machine 3 has lost the disk of its etcd.
func TestTheManualOfThreeMachinesAsWritten(t *testing.T) {
	whole(t)
	etcdctl := etcdTools(t)
	script := "export PATH=$PATH:" + etcdctl + "\n"
	for _, b := range section(t, "cluster3/README.md", "## Start it") {
		script += inBackground(b) + "\n"
	}
	if etcdctl != "" {
		script += `kill -9 $(pgrep -f 'souk infra --config deploy/cluster3' | tail -1)
until ! deploy/cluster3/machine.sh 3 infra --probe; do sleep 0.1; done
rm -r souk-data-3/etcd
`
		for _, b := range section(t, "cluster3/README.md", "## A member without its disk") {
			if b = strings.TrimSpace(b); strings.HasSuffix(b, "machine.sh 3 infra") {
				b += " >> infra-3.log 2>&1 &"
			}
			script += inBackground(strings.NewReplacer("member remove ID",
				"member remove $(etcdctl member list | grep 127.0.0.3: | cut -d, -f1)",
				"etcdctl member add", "until etcdctl member add", ":2380\n", ":2380; do sleep 1; done\n").
				Replace(b+"\n")) + "\n"
		}
		script += `until deploy/cluster3/machine.sh 3 infra --probe; do sleep 0.2; done
until deploy/cluster3/machine.sh 1 souk status; do sleep 1; done
deploy/cluster3/machine.sh 1 souk submit "What is a souk?"
`
	}
	playManual(t, script)
}
