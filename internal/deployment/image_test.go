package deployment

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dockerfile is the file that makes the image, as this machine executes it.
type dockerfile struct {
	t           *testing.T
	build, last string // the stage that builds, and the one that is the image
}

func readDockerfile(t *testing.T) dockerfile {
	t.Helper()
	text := strings.ReplaceAll(read(t, "deploy/docker/Dockerfile"), "\\\n", " ")
	stages := regexp.MustCompile(`(?m)^FROM .*$`).Split(text, -1)
	if len(stages) != 3 || !strings.Contains(text, "\nFROM scratch\n") {
		t.Fatalf("the Dockerfile has %d stages, want one that builds and an empty image", len(stages)-1)
	}
	return dockerfile{t, stages[1], stages[2]}
}

// one returns the rest of the only line with an instruction.
func (d dockerfile) one(stage, instruction string) string {
	d.t.Helper()
	found := regexp.MustCompile(`(?m)^`+instruction+` (.*)$`).FindAllStringSubmatch(stage, -1)
	if len(found) != 1 {
		d.t.Fatalf("the Dockerfile says %s %d times", instruction, len(found))
	}
	return found[0][1]
}

// words are those of an instruction in its JSON form, to be read by a shell.
func (d dockerfile) words(instruction string) string {
	d.t.Helper()
	text := d.one(d.last, instruction)
	var list []string
	if err := json.Unmarshal([]byte(text[strings.IndexByte(text, '['):]), &list); err != nil {
		d.t.Fatalf("%s %s: %v", instruction, text, err)
	}
	return "'" + strings.Join(list, "' '") + "'"
}

// container does with the folder of an image what an engine does: its root is
// read-only but for /tmp, it has a network and processes of its own, and the
// gateway is an unprivileged user's. It then asks the health check, has the image's
// client read ticks, and stops the gateway.
const container = `set -eu
root=$1
mkdir "$root/proc"
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=1m,mode=1777 tmp "$root/tmp"
ip link set lo up
if touch "$root/x" 2>/dev/null; then echo 'the root can be written to'; exit 1; fi
chroot=$(command -v chroot)
env -i ENVIRONMENT "$chroot" AS "$root" ENTRYPOINT CMD >"$2" 2>&1 & gateway=$!
inside() { env -i ENVIRONMENT "$chroot" AS "$root" "$@"; }
n=0
until inside HEALTHCHECK; do
	n=$((n + 1))
	if [ $n = 300 ] || ! kill -0 "$gateway"; then echo 'never healthy'; cat "$2"; exit 1; fi
	sleep 0.1
done
inside /sealcast health
grep -E '^(Uid|CapEff):' "$root/proc/$gateway/status"
inside /sealctl tail ws://127.0.0.1:8080/ws --insecure --topics 'md:**' --count 5
kill -s STOPSIGNAL "$gateway"
wait "$gateway"
echo stopped`

// What the image holds is static, and serves as an unprivileged user on a
// read-only root in namespaces of its own, as a container would start it: every
// step is the Dockerfile's.
func TestImageWithoutAnEngine(t *testing.T) {
	d := readDockerfile(t)
	dir := filepath.Join(t.TempDir(), "image")
	if from, to := d.one(d.build, "RUN"), d.one(d.last, "COPY"); !strings.Contains(from, " /out ") || to != "--from=build /out/ /" {
		t.Fatalf("RUN %s, COPY %s", from, to)
	}
	run(t, []string{"VERSION=test", "OUT=" + dir}, "sh", "-c", strings.ReplaceAll(d.one(d.build, "RUN"), " /out ", ` "$OUT" `))
	for _, name := range []string{"sealcast", "sealctl"} {
		if out := run(t, nil, "file", filepath.Join(dir, name)); !strings.Contains(out, "statically linked") {
			t.Errorf("not static: %s", out)
		}
	}
	user := d.one(d.last, "USER")
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("USER %s is not a number that is not root", user)
	}
	args, as := []string{"--net", "--mount", "--pid", "--fork", "--ipc", "--uts"}, "--userspec="+user
	if os.Geteuid() != 0 { // root there is this unprivileged user; no others are known
		args, as = append(args, "--user", "--map-root-user"), ""
	}
	script := strings.NewReplacer("ENVIRONMENT", d.one(d.last, "ENV"), "AS", as, "ENTRYPOINT", d.words("ENTRYPOINT"), "CMD", d.words("CMD"),
		"HEALTHCHECK", d.words("HEALTHCHECK"), "STOPSIGNAL", strings.TrimPrefix(d.one(d.last, "STOPSIGNAL"), "SIG")).Replace(container)
	out := run(t, nil, "unshare", append(args, "sh", "-c", script, "container", dir, filepath.Join(t.TempDir(), "log"))...)
	if ticks := regexp.MustCompile(`(?m)^[0-9:.]+ md:demo:`).FindAllString(out, -1); len(ticks) != 5 || !strings.HasSuffix(out, "stopped\n") {
		t.Errorf("in a container: %s", out)
	}
	uid, _, _ := strings.Cut(user, ":")
	if os.Geteuid() == 0 && !(strings.Contains(out, "Uid:\t"+uid+"\t"+uid+"\t") && strings.Contains(out, "CapEff:\t0000000000000000")) {
		t.Errorf("the gateway is not that of the user %s: %s", uid, out)
	}
}
