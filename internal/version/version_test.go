package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestFromBuild(t *testing.T) {
	vcs := func(kv ...string) []debug.BuildSetting {
		var s []debug.BuildSetting
		for i := 0; i < len(kv); i += 2 {
			s = append(s, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return s
	}
	for _, c := range []struct {
		main     string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "v1.2.3"},
		{"(devel)", nil, "development"},
		{"", vcs("vcs.revision", "0123456789abcdef", "vcs.modified", "false"), "development-0123456789ab"},
		{"", vcs("vcs.revision", "0123", "vcs.modified", "true"), "development-0123+dirty"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.main}, Settings: c.settings}
		if got := fromBuild(info); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestLinkedRelease(t *testing.T) {
	defer func(old string) { release = old }(release)
	release = "v9"
	if got := Long(); !strings.HasPrefix(got, "v9 (go") || !strings.HasSuffix(got, runtime.GOOS+"/"+runtime.GOARCH+")") {
		t.Errorf("got %q", got)
	}
}
