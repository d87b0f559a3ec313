package cryptobench

import "syscall"

// systemModel asks the system for the processor's model.
func systemModel() string {
	model, err := syscall.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return model
}
