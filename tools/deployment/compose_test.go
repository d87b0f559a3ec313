package deployment

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// loadCompose reads the compose file as docker compose does, with the secrets in place.
func loadCompose(t *testing.T) *types.Project {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deploy", "compose")
	if err := os.MkdirAll(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(root + "/deploy/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"compose.yaml": string(content), "secrets/gateway.env": "SEALCAST_ADMIN_TOKEN=x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}, cli.WithWorkingDirectory(dir), cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompose(t *testing.T) {
	project := loadCompose(t)
	if got, want := project.ServiceNames(), []string{"gateway1", "gateway2", "grafana", "haproxy", "prometheus", "redis"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("services: %v", got)
	}
	for _, name := range []string{"gateway1", "gateway2"} {
		g := project.Services[name]
		if !g.ReadOnly || !slices.Equal(g.CapDrop, []string{"ALL"}) || g.StopGracePeriod == nil {
			t.Errorf("%s may be more than it must: %+v", name, g)
		}
	}
}

// Every file that a service mounts is in the repository, or made by secrets.sh.
func TestComposeMountsWhatExists(t *testing.T) {
	script, err := os.ReadFile(root + "/deploy/compose/secrets.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range loadCompose(t).Services {
		for _, v := range s.Volumes {
			file := filepath.Base(v.Source)
			if filepath.Base(filepath.Dir(v.Source)) == "secrets" {
				if !bytes.Contains(script, []byte("secrets/"+file)) {
					t.Errorf("%s: secrets.sh makes no %s", name, file)
				}
				continue
			}
			folder := filepath.Base(filepath.Dir(v.Source))
			if _, err := os.Stat(filepath.Join(root, "deploy", folder, file)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
