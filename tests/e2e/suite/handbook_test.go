package suite

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

	"berth.dev/tests/e2e/suite/bed"
)

const operationsPage = "../../../docs/operations.md"

// Blocks of the page: a comment says what a fenced text is for.
var (
	marked = regexp.MustCompile("(?ms)^<!-- (run|file): ([^ ]+) -->\n```(sh|yaml)\n(.*?)^```$")
	shell  = regexp.MustCompile("(?m)^```sh$")
)

// handbook is docs/operations.md in an administrator's hands: a folder with the
// shipped manifests and the files that the page has, and a cluster of its own,
// which the page may change as it likes.
type handbook struct {
	t      *testing.T
	s      *bed.Scenario
	dir    string
	blocks map[string]string
	env    []string
}

// readOperations returns the page's blocks to run, and its files.
func readOperations(t *testing.T) (blocks, files map[string]string) {
	t.Helper()
	page, err := os.ReadFile(operationsPage)
	if err != nil {
		t.Fatal(err)
	}
	blocks, files = map[string]string{}, map[string]string{}
	for _, m := range marked.FindAllStringSubmatch(string(page), -1) {
		into := blocks
		if m[1] == "file" {
			into = files
		}
		if into[m[2]] != "" {
			t.Fatalf("%s is there twice", m[2])
		}
		into[m[2]] = m[4]
	}
	if n := len(shell.FindAllString(string(page), -1)); n != len(blocks) {
		t.Fatalf("%d sh blocks, %d of them marked to be run", n, len(blocks))
	}
	return blocks, files
}

// openHandbook starts a control plane and prepares the administrator's folder.
func openHandbook(t *testing.T, images map[string]string) *handbook {
	t.Helper()
	needsGate(t)
	b, err := bed.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(t.Failed()) })
	s := b.Scenario(t, bed.Options{Deployments: images})
	h := &handbook{t: t, s: s, dir: t.TempDir()}
	var files map[string]string
	h.blocks, files = readOperations(t)
	for name, text := range files {
		h.write(name, text)
	}
	if err := os.CopyFS(filepath.Join(h.dir, "manifests"), os.DirFS("../../../manifests")); err != nil {
		t.Fatal(err)
	}
	programs := filepath.Join(h.dir, "bin")
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"berth": s.Berth(), "kubectl": b.Program("kubectl")} {
		if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "HOME="+h.dir, "KUBECONFIG="+b.AdminKubeconfig())
	return h
}

func (h *handbook) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// run does what a block says, which must succeed, and returns what it prints.
func (h *handbook) run(name string) string {
	h.t.Helper()
	out, err := h.try(name)
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return out
}

func (h *handbook) try(name string) (string, error) {
	h.t.Helper()
	block, ok := h.blocks[name]
	if !ok {
		h.t.Fatalf("%s has no block %s", operationsPage, name)
	}
	ctx, cancel := context.WithTimeout(h.s.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", block)
	command.Dir, command.Env = h.dir, h.env
	started := time.Now()
	out, err := command.CombinedOutput()
	h.t.Logf("%s: %v", name, time.Since(started).Round(time.Millisecond))
	return string(out), err
}

// install makes the certificates and installs Berth as the page says.
func (h *handbook) install() {
	h.t.Helper()
	h.run("certificates")
	h.run("install")
	bed.Eventually(h.t, 2*bed.Timeout, "one of two replicas leads", func() error {
		replicas := h.s.Deployed.Berths()
		leading := slices.DeleteFunc(slices.Clone(replicas), func(r *bed.Replica) bool { return !r.Leads() || !r.Labelled() })
		return bed.Unless(len(replicas) == 2 && len(leading) == 1, "%d replicas, %d lead", len(replicas), len(leading))
	})
}

// Every sh block of the page is run by a test here: those of the names that
// calls of run in this folder have.
func TestOperationsBlocksAreRun(t *testing.T) {
	blocks, files := readOperations(t)
	if len(files) == 0 {
		t.Error("no files")
	}
	calls := regexp.MustCompile(`h\.(?:run|try)\("([a-z-]+)"\)`)
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]bool{}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range calls.FindAllStringSubmatch(string(text), -1) {
			run[m[1]] = true
		}
	}
	for name := range blocks {
		if !run[name] {
			t.Errorf("no test runs %s", name)
		}
	}
	for name := range run {
		if _, ok := blocks[name]; !ok {
			t.Errorf("a test runs %s, which is not there", name)
		}
	}
}

// contains fails the test unless a text has all parts.
func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in\n%s", what, part, text)
		}
	}
}

// each replica's value of a metric.
func (h *handbook) eachReplica(series string) (values []float64) {
	h.t.Helper()
	for _, r := range h.s.Deployed.Berths() {
		metrics, err := r.Metrics()
		if err != nil {
			h.t.Fatal(err)
		}
		value, ok := metrics[series]
		if !ok {
			h.t.Fatal(fmt.Errorf("%s has no %s", r.Name, series))
		}
		values = append(values, value)
	}
	return values
}
