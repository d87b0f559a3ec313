// Package advice is errors for people at a command line: what went wrong, what
// to do about it, and the exit status it stands for. It never ends the program.
package advice

import (
	"errors"
	"fmt"
	"io"
)

// Exit statuses that all programs share.
const (
	StatusDone   = 0
	StatusFailed = 1
	StatusUsage  = 2
)

// Error is an error with advice and an exit status.
type Error struct {
	Err    error
	Hint   string // empty: there is nothing to be said
	Status int
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the error without advice.
func (e *Error) Unwrap() error { return e.Err }

// Misuse is a command line that cannot be followed.
func Misuse(text, hint string) error { return &Error{errors.New(text), hint, StatusUsage} }

// Failed is any other failure.
func Failed(err error, hint string) error { return &Error{err, hint, StatusFailed} }

// Of finds the advice in an error. One without advice has failed, and there is no hint.
func Of(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{err, "", StatusFailed}
}

// Write tells a person what went wrong, and what to do if that is known.
func Write(w io.Writer, program, text, hint string) {
	fmt.Fprintf(w, "%s: error: %s\n", program, text)
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}
