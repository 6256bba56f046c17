"""Shared by the planners: problems, trees and probe sequences, reuse, key spaces, splitting of joins."""
