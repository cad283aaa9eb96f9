package suite

import (
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"berth.dev/tests/e2e/suite/bed"
)

// The example of a sweep over many machines: every shard has ten seeds of its
// own. The image has no shell, so that its arguments must do alone.
func TestSweepShards(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	var job batchv1.Job
	if err := yaml.UnmarshalStrict([]byte(read(t, exampleFolder+"/simulate-sweep.yaml")), &job); err != nil {
		t.Fatal(err)
	}
	container := job.Spec.Template.Spec.Containers[0]
	if len(container.Command) > 0 {
		t.Fatalf("the image's entry point is berth, and there is no %s in it", container.Command[0])
	}
	jobs := "job_id,model,gpus,mode,total_steps,duration_s,arrival_s\n0,m,1,gns,1,1593,0\n1,m,8,gns,1,2640,31\n"
	traces := filepath.Dir(s.WriteFile("tacc_460.csv", jobs))
	mount := container.VolumeMounts[0].MountPath
	for _, index := range []int{0, 1, 49} {
		var args []string
		for _, arg := range container.Args {
			// As the kubelet does.
			arg = strings.ReplaceAll(arg, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(index))
			args = append(args, strings.ReplaceAll(arg, mount, traces))
		}
		rows, err := csv.NewReader(strings.NewReader(s.RunBerth(args...))).ReadAll()
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
