// Package version tells which build this is. It holds no other facts.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is set by the linker:
// -ldflags "-X github.com/sealcast/sealcast/internal/version.release=v1.2.3".
var release string

// String is the release, or what the toolchain knows of the sources: a module
// version, or the commit, with +dirty if files had changed since.
func String() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return fromBuild(info)
}

func fromBuild(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit == "" {
		return "development"
	}
	return "development-" + commit + dirty
}

// Long is one line for a person: release, toolchain and platform.
func Long() string {
	return fmt.Sprintf("%s (%s, %s/%s)", String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
