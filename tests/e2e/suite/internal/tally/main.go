// Command tally reads `go test -json` from standard input, prints the output of
// tests that did not pass, and ends with "N passed, N failed". It counts tests
// without subtests; a test that was skipped, or never came to an end, failed. With
// the argument --kubernetes (another release than the default one) tests that say
// "not run: " are counted apart.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// event is the part of a test2json event that matters here.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
}

type test struct{ pkg, name string }

// notRun begins the reason of a test of what the Kubernetes release does not serve.
const notRun = "not run: "

func main() {
	another := slices.Contains(os.Args[1:], "--kubernetes")
	passed, failed, unserved, err := tally(os.Stdin, os.Stdout, another)
	if err != nil {
		fmt.Println(err)
		failed++
	}
	if unserved > 0 {
		fmt.Printf("%d not run, for want of what this Kubernetes does not serve\n", unserved)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

func tally(in io.Reader, out io.Writer, another bool) (passed, failed, unserved int, err error) {
	outcome := map[test]string{}
	output := map[test]*strings.Builder{}
	var order []test
	brokenPackages := map[string]bool{}

	lines := bufio.NewReader(in)
	for {
		line, readErr := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) != nil {
			// The go command's own messages come as plain text.
			fmt.Fprintf(out, "%s", line)
		} else if err := e.record(out, outcome, output, &order, brokenPackages); err != nil {
			return 0, 0, 0, err
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return 0, 0, 0, readErr
		}
	}

	for _, t := range order {
		if hasSubtests(t, order) {
			if outcome[t] == "pass" {
				continue
			}
			// A parent may fail by itself; its children are counted apart.
			if slices.ContainsFunc(order, func(o test) bool { return isBelow(o, t) && outcome[o] != "pass" }) {
				continue
			}
		}
		if another && outcome[t] == notRun {
			unserved++
			continue
		}
		if outcome[t] == "pass" {
			passed++
			continue
		}
		failed++
		delete(brokenPackages, t.pkg)
		if outcome[t] == "no end" {
			fmt.Fprintf(out, "%s did not come to an end\n%s", t.name, output[t])
		}
	}
	// A package that failed without a failing test did not build, or died.
	for pkg := range brokenPackages {
		fmt.Fprintf(out, "FAIL package %s\n", pkg)
		failed++
	}
	return passed, failed, unserved, nil
}

// record takes one event in and prints what a reader wants to see at once.
func (e event) record(out io.Writer, outcome map[test]string, output map[test]*strings.Builder, order *[]test, broken map[string]bool) error {
	t := test{e.Package, e.Test}
	if e.Test == "" {
		switch e.Action {
		case "fail", "build-fail":
			broken[e.Package+e.ImportPath] = true
		case "output", "build-output":
			fmt.Fprint(out, e.Output)
		}
		return nil
	}
	switch e.Action {
	case "run":
		*order = append(*order, t)
		outcome[t] = "no end"
		output[t] = &strings.Builder{}
	case "output":
		if output[t] != nil && !strings.HasPrefix(e.Output, "=== ") {
			output[t].WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		outcome[t] = e.Action
		if e.Action == "skip" && output[t] != nil && strings.Contains(output[t].String(), notRun) {
			outcome[t] = notRun
		}
		fmt.Fprintf(out, "%-4s %7.2fs  %s\n", e.Action, e.Elapsed, e.Test)
		if e.Action != "pass" && output[t] != nil {
			fmt.Fprint(out, output[t].String())
		}
		delete(output, t)
	}
	return nil
}

func isBelow(t, parent test) bool {
	return t.pkg == parent.pkg && strings.HasPrefix(t.name, parent.name+"/")
}

func hasSubtests(t test, all []test) bool {
	return slices.ContainsFunc(all, func(o test) bool { return isBelow(o, t) })
}
