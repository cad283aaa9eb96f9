package suite

import (
	"flag"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"berth.dev/tests/e2e/suite/bed"
)

var waitsForHours = regexp.MustCompile(`wait: \d+h`)

// isChosen says whether a scenario file runs here, too. The simulator runs all of
// them. Of the many about quota, a third runs here, half of those about evictions,
// which only a real API server carries out, and all about autoscalers, which see
// what the real kube-scheduler says of a pod; but none about warnings, which wait
// for minutes (TestPodsAreToldOfTheirEviction does not). A hash of the name chooses,
// so that a new file does not change which of the others run.
// In three, Berth must die before the first victim is gone, the node must be
// cordoned while all of them end, or a second pod must come before the first one is
// bound: on a busy machine it is too late or too early.
// What waits for hours runs only there.
func isChosen(area, name string, text []byte) bool {
	if waitsForHours.Match(text) {
		return false
	}
	evicts := strings.HasPrefix(name, "gang-evicts") || strings.HasPrefix(name, "reclaim-") || strings.HasPrefix(name, "drain-")
	waits := strings.HasPrefix(name, "warning")
	marked := strings.HasPrefix(name, "autoscaler")
	switch name {
	case "surplus-of-one-gang-for-several", "autoscaler-sees-work-that-lost-its-plan",
		"autoscaler-sees-work-that-gave-way":
		return false
	}
	hash := fnv.New32a()
	hash.Write([]byte(name))
	part := hash.Sum32() % 6
	return area != "quota" || (part < 2 && !waits) || (evicts && part < 3) || marked
}

// The scenario files that the simulator runs hold on the real control plane
// too: the two agree. They mostly wait, so several control planes run them side by
// side, as many as `go test -parallel` says (tests/e2e/run).
func TestScenarioFiles(t *testing.T) {
	beds, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	idle := make(chan *bed.Bed, beds)
	idle <- control
	for range beds - 1 {
		another, err := bed.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { another.Close(t.Failed()) })
		idle <- another
	}
	files, err := filepath.Glob("../../scenario/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		area, name := filepath.Split(strings.TrimSuffix(file, ".yaml"))
		if area = filepath.Base(area); area == "open" {
			continue // known not to hold; the file says why
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !isChosen(area, name, text) {
			continue
		}
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(area+"/"+name, func(t *testing.T) {
			t.Parallel()
			mine := <-idle
			t.Cleanup(func() { idle <- mine }) // after the scenario's own clean-up
			mine.RunStory(t, path, bed.Options{})
		})
	}
}
