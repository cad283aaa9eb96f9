package suite

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// There is no container engine here. What the image holds is made as the
// Containerfile makes it, and Berth runs in it, as the user that the manifests
// name, with no other file of this machine in sight.
func TestContainerImage(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	root := filepath.Join(t.TempDir(), "image")
	if out, err := exec.Command("../../../dev", "image-root", s.Berth(), root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, root)
		if !regexp.MustCompile(`^/usr/bin/berth$|\.so(\.\d+)*$|/copyright$|^/var/lib/dpkg/status\.d/[a-z0-9.+-]+$`).MatchString(name) {
			t.Errorf("%s is in the image", name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	var deployment appsv1.Deployment
	find(t, baseFolder+"/deployment.yaml", "Deployment", &deployment)
	who := deployment.Spec.Template.Spec.SecurityContext
	user := fmt.Sprintf("%d:%d", *who.RunAsUser, *who.RunAsGroup)
	for _, line := range []string{
		"ARG BERTH_COMMIT=",
		"RUN ./dev program && ./dev image-root build/server/berth /image",
		"COPY --from=build /image /", "USER " + user, `ENTRYPOINT ["/usr/bin/berth"]`,
	} {
		if !strings.Contains(read(t, "../../../Containerfile"), "\n"+line+"\n") {
			t.Errorf("Containerfile does not say %s", line)
		}
	}

	cluster := read(t, recordedCluster)
	if err := os.WriteFile(root+"/cluster.yaml", []byte(cluster), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"chroot", "--userspec=" + user, root}
	if os.Geteuid() != 0 {
		args = []string{"unshare", "--user", "--map-root-user", "chroot", root}
	}
	port := s.FreePort()
	s.Container("image", append(args[1:], "/usr/bin/berth", "serve", "--snapshot", "/cluster.yaml", "--listen", "127.0.0.1:0",
		"--ops-listen", fmt.Sprintf("127.0.0.1:%d", port))).Start(args[0], bed.Loopback("http", port, "/readyz"))
	out := s.RunBerth("queues", "--berth-url", bed.Loopback("http", port, ""))
	if !strings.Contains(out, "default") {
		t.Errorf("it knows of the queues %s", out)
	}
}
