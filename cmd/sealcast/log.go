package main

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/sealcast/sealcast/internal/config"
)

// logger is a zap logger whose level can change.
type logger struct {
	*zap.Logger
	level   zap.AtomicLevel
	encoder zapcore.Encoder
	sink    zapcore.WriteSyncer // whole lines, from any goroutine
}

// newLogger returns a logger that writes whole lines to w, from any goroutine.
func newLogger(w io.Writer, settings config.Log) *logger {
	keys := zap.NewProductionEncoderConfig()
	keys.EncodeTime = func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
		enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	keys.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(keys)
	if settings.Format == config.LogText {
		keys.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(keys)
	}
	level := zap.NewAtomicLevelAt(logLevel(settings.Level))
	sink := zapcore.Lock(zapcore.AddSync(w))
	return &logger{zap.New(zapcore.NewCore(encoder, sink, level)), level, encoder, sink}
}

func logLevel(l config.LogLevel) zapcore.Level {
	switch l {
	case config.LogDebug:
		return zapcore.DebugLevel
	case config.LogWarn:
		return zapcore.WarnLevel
	case config.LogError:
		return zapcore.ErrorLevel
	default:
		return zapcore.InfoLevel
	}
}
