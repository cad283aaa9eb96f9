package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"berth.dev/tests/e2e/suite/bed"
	"berth.dev/tests/e2e/suite/internal/stub"
)

// records is where the C++ suite `scenario` finds what kube-scheduler did.
const records = "../../golden/kube-scheduler"

// idle is an extender that manages nothing that exists. Having one turns
// opportunistic batching off, as Berth's entry does.
var idle = configv1.Extender{
	URLPrefix:        "http://127.0.0.1:1",
	FilterVerb:       "filter",
	ManagedResources: []configv1.ExtenderManagedResource{{Name: "test.invalid/none"}},
}

// mostAllocated is the profile tuned for packing.
const mostAllocated = `profiles:
- schedulerName: default-scheduler
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}, {name: nvidia.com/gpu, weight: 1}]
`

// What kube-scheduler alone does with each scenario is what is recorded beside
// it, attempt by attempt. The model of the simulator is held to the same
// records by the C++ suite, so the two agree. BERTH_RECORD=1 records again.
func TestKubeSchedulerModel(t *testing.T) {
	version, err := control.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Minor != "36" {
		t.Skipf("not run: the recordings are of kube-scheduler v1.36, this is %s", version)
	}
	for name, options := range map[string]bed.Options{
		"least-allocated": {},
		"most-allocated":  {SchedulerConfig: mostAllocated},
		"requeue":         {SchedulerConfig: "podMaxBackoffSeconds: 1\n", Join: 2500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join(records, name))
			if err != nil {
				t.Fatal(err)
			}
			options.NoExtender, options.After, options.LogLevel = true, []configv1.Extender{idle}, 3
			attempts := control.RunStory(t, path+".yaml", options).Attempts()
			if os.Getenv("BERTH_RECORD") != "" {
				err := os.WriteFile(path+".attempts", []byte(strings.Join(attempts, "\n")+"\n"), 0o644)
				if err != nil {
					t.Fatal(err)
				}
			}
			recorded, err := os.ReadFile(path + ".attempts")
			if err != nil {
				t.Fatal(err)
			}
			compareAttempts(t, strings.Split(strings.TrimSpace(string(recorded)), "\n"), attempts)
		})
	}
}

// Any update of a pod that an extender refused has it tried again, a mere
// nomination too: the model's queue does the same.
func TestOwnUpdateWakesRefusedPod(t *testing.T) {
	for name, patch := range map[string]string{
		"annotation": `{"metadata":{"annotations":{"test.invalid/any":"1"}}}`,
		"nomination": `{"status":{"nominatedNodeName":"node-000"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			extender := (&stub.Extender{Client: control.Client, Accept: func(string) bool { return false }}).Start()
			defer extender.Close()
			s := control.Scenario(t, bed.Options{Extender: extender.URL(), LogLevel: 3})
			s.Nodes(1).GPUs(8).Create()
			pod := s.Pod("p").GPUs(1).Create()
			tried := func(more int) func() error {
				return func() error {
					n := len(s.Attempts())
					return bed.Unless(n >= more, "%d attempts", n)
				}
			}
			// The second comes from its own PodScheduled condition.
			bed.Eventually(t, bed.Timeout, "two attempts", tried(2))
			var sub []string
			if name == "nomination" {
				sub = []string{"status"}
			}
			_, err := s.Client.CoreV1().Pods(pod.Namespace).Patch(s.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub...)
			if err != nil {
				t.Fatal(err)
			}
			bed.Eventually(t, bed.Timeout, "a third attempt", tried(3))
		})
	}
}

func compareAttempts(t *testing.T, recorded, attempts []string) {
	t.Helper()
	agree := 0
	for agree < min(len(recorded), len(attempts)) && recorded[agree] == attempts[agree] {
		agree++
	}
	t.Logf("%d recorded, %d now: the first %d agree", len(recorded), len(attempts), agree)
	if agree < max(len(recorded), len(attempts)) {
		t.Errorf("recorded, from there: %q; now: %q", recorded[agree:], attempts[agree:])
	}
}
