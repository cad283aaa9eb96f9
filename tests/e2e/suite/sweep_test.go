package suite

import (
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// The example of a sweep over many machines: every shard has ten seeds of its
// own. The image has no shell, so that its arguments must do alone.
func TestSweepShards(t *testing.T) {
	text, err := os.ReadFile(exampleFolder + "/simulate-sweep.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job batchv1.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		t.Fatal(err)
	}
	container := job.Spec.Template.Spec.Containers[0]
	if len(container.Command) > 0 {
		t.Fatalf("the image's entry point is berth, and there is no %s in it", container.Command[0])
	}
	traces := t.TempDir()
	jobs := "job_id,model,gpus,mode,total_steps,duration_s,arrival_s\n0,m,1,gns,1,1593,0\n1,m,8,gns,1,2640,31\n"
	if err := os.WriteFile(filepath.Join(traces, "tacc_460.csv"), []byte(jobs), 0o600); err != nil {
		t.Fatal(err)
	}
	mount := container.VolumeMounts[0].MountPath
	for _, index := range []int{0, 1, 49} {
		var args []string
		for _, arg := range container.Args {
			// As the kubelet does.
			arg = strings.ReplaceAll(arg, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(index))
			args = append(args, strings.ReplaceAll(arg, mount, traces))
		}
		out, err := exec.Command(os.Getenv("BERTH_BIN"), args...).Output()
		if err != nil {
			t.Fatalf("shard %d: berth %v: %v", index, args, err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		column := slices.Index(rows[0], "seed")
		runs := map[string]int{}
		for _, row := range rows[1:] {
			runs[row[column]]++
		}
		for seed := 10 * index; seed < 10*index+10; seed++ {
			if runs[fmt.Sprint(seed)] != 4 {
				t.Errorf("shard %d: seed %d has %d runs, want one of each of 4 policies", index, seed, runs[fmt.Sprint(seed)])
			}
			delete(runs, fmt.Sprint(seed))
		}
		if len(runs) > 0 {
			t.Errorf("shard %d: seeds of others: %v", index, runs)
		}
	}
}
