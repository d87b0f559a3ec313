package config

import (
	"reflect"
	"slices"
	"testing"
)

func TestReload(t *testing.T) {
	redis := []string{"redis.mode=standalone", "redis.addrs=a:1"}
	started := load(t, Sources{Set: append(redis, "redis.password=old", "limits.tick=1KiB")}).Config
	next := load(t, Sources{Set: append(redis, "redis.password=new", "limits.tick=2KiB", "slow.queue=1MiB", "listen=:1", "cipher.suites=sm4-gcm", "topics=[]")}).Config
	if got, want := started.Changes(next), []string{"listen", "cipher.suites", "redis.password", "topics", "limits.tick", "slow.queue"}; !slices.Equal(got, want) {
		t.Errorf("changes %q", got)
	}
	inForce, waiting := started.Reload(next)
	if want := []string{"listen", "limits.tick"}; !slices.Equal(waiting, want) {
		t.Errorf("waiting %q", waiting)
	}
	if got, want := started.Changes(inForce), []string{"cipher.suites", "redis.password", "topics", "slow.queue"}; !slices.Equal(got, want) {
		t.Errorf("changes that took effect: %q", got)
	}
	if inForce.Redis.Password.Reveal() != "new" || inForce.Limits.Tick != kib || inForce.Slow.Queue != mib {
		t.Errorf("got %+v", inForce)
	}
	if _, again := inForce.Reload(next); !slices.Equal(again, waiting) {
		t.Errorf("what waits is forgotten: %q", again)
	}
}

func TestReloadOfTheSame(t *testing.T) {
	inForce, waiting := Default().Reload(Default())
	if len(waiting) > 0 || len(Default().Changes(Default())) > 0 || !reflect.DeepEqual(inForce, Default()) {
		t.Errorf("waiting %q", waiting)
	}
}

// Each setting can be told from another value, or a reload would not see it change.
func TestEverySettingHasAField(t *testing.T) {
	for _, row := range table(&Config{}) {
		if row.kind.field == nil {
			t.Errorf("%s has no field", row.key)
		}
	}
}
