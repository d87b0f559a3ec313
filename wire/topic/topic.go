// Package topic is the grammar of topic names and of the patterns that match
// them. It compares strings and never keeps state.
package topic
