"""What the planners share: problems, trees and probe sequences, reuse, key spaces, splitting of joins."""
