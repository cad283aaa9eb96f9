// Command bench measures Berth: alone, and beside an ordinary Go extender and
// the stock scheduler in the same run. docs/benchmarks.md explains each
// benchmark; ./dev bench runs them.
//
// Nothing here asserts a time: a figure depends on the machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// lab is what all benchmarks share.
type lab struct {
	out          string // for JSON, logs and generated files
	berth        string // the program
	berthVersion string
	reference    string // the ordinary Go extender
	quick        bool
	nodes        []int // sizes, where a benchmark has several; nil: its own
}

// benchmark measures one thing and returns what it found.
type benchmark struct {
	name string
	help string
	run  func(context.Context, *lab) (*report, error)
	// named runs only when asked for: it takes hours.
	named bool
}

var benchmarks = []benchmark{
	{"verbs", "filter's latency beside the Go extender", verbs, false},
	{"gangs", "first answers to gangs, and the answer that a gang cannot run", gangs, false},
	{"throughput", "pods per second through the stock scheduler", throughput, false},
	{"gang512", "a gang of 512 pods on 512 nodes, created to bound", gang512, false},
	{"waiting5000", "a fresh pod while 5,000 workloads wait", waiting5000, false},
	{"admissions", "jobs per second into one queue and into 30", admissions, false},
	{"reclaim", "a job takes back what another queue has borrowed, among 4,000 running jobs", reclaim, false},
	{"reclaim2000", "2,000 borrowed GPUs are taken back", reclaim2000, false},
	{"binds", "binds per second, with and without a barrier", binds, false},
	{"handover", "a change of leader under load: outage of the verbs, waits of pods", handover, false},
	{"soak", "two hours under a load that means harm: memory", soak, true},
	{"startup", "5,000 nodes and 140,000 pods: time to ready, memory", startup, false},
}

func main() {
	l := &lab{}
	flag.StringVar(&l.out, "out", "build/bench", "folder for results, logs and generated files")
	flag.StringVar(&l.berth, "berth", "build/server/berth", "the berth program")
	flag.StringVar(&l.reference, "reference", "build/bench/programs/reference-extender", "the ordinary Go extender")
	flag.BoolVar(&l.quick, "quick", false, "fewer repetitions, pods and sizes")
	flag.Func("nodes", "comma-separated cluster sizes for verbs and throughput", func(list string) error {
		for _, text := range strings.Split(list, ",") {
			count, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			l.nodes = append(l.nodes, count)
		}
		return nil
	})
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: bench [FLAGS] [NAME...]\n\n")
		for _, b := range benchmarks {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-12s %s\n", b.name, b.help)
		}
		fmt.Fprintln(flag.CommandLine.Output())
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := l.main(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (l *lab) main(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(benchmarks, func(b benchmark) bool { return b.name == name }) {
			return fmt.Errorf("no benchmark %q; -h lists them", name)
		}
	}
	for _, path := range []*string{&l.out, &l.berth, &l.reference} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if err := os.MkdirAll(l.out, 0o755); err != nil {
		return err
	}
	version, err := exec.Command(l.berth, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", l.berth, err)
	}
	l.berthVersion = strings.TrimSpace(string(version))

	for _, b := range benchmarks {
		if !slices.Contains(names, b.name) && (len(names) > 0 || b.named) {
			continue
		}
		r, err := b.run(context.Background(), l)
		if r != nil {
			if err := r.write(l.out); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// full is the value of a whole run, or of a quick one.
func full[T any](l *lab, whole, quick T) T {
	if l.quick {
		return quick
	}
	return whole
}

// sizes are the cluster sizes to measure, ascending.
func (l *lab) sizes(usual ...int) []int {
	if len(l.nodes) == 0 {
		return usual
	}
	return slices.Sorted(slices.Values(l.nodes))
}
